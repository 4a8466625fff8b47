//! Stop texts: the answer ends before the first of them, also when it spans tokens.

/// What a piece of text became.
#[derive(Debug, PartialEq, Eq)]
pub struct Matched {
    /// Text that is safe to show.
    pub text: String,
    /// Whether a stop text was reached: what follows it is dropped.
    pub stopped: bool,
}

/// Watches a stream of text for stop texts.
#[derive(Debug, Clone, Default)]
pub struct StopTexts {
    stops: Vec<String>,
    held: String,
}

impl StopTexts {
    /// A watcher for these texts; empty ones are ignored.
    pub fn new(stops: Vec<String>) -> Self {
        Self { stops: stops.into_iter().filter(|stop| !stop.is_empty()).collect(), held: String::new() }
    }

    /// Takes the next piece and gives what cannot be part of a stop text any more.
    pub fn push(&mut self, piece: &str) -> Matched {
        if self.stops.is_empty() {
            return Matched { text: piece.to_string(), stopped: false };
        }
        self.held.push_str(piece);
        if let Some(start) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            let text = self.held[..start].to_string();
            self.held.clear();
            return Matched { text, stopped: true };
        }
        let keep = self.unfinished();
        let rest = self.held.split_off(self.held.len() - keep);
        Matched { text: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// What was held back, at the end of a stream.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Bytes at the end of the held text that may be the start of a stop text.
    fn unfinished(&self) -> usize {
        let starts = self.held.char_indices().map(|(start, _)| start);
        for start in starts {
            let end = &self.held[start..];
            if self.stops.iter().any(|stop| stop.len() > end.len() && stop.starts_with(end)) {
                return end.len();
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut watcher = StopTexts::new(stops.iter().map(|stop| (*stop).to_string()).collect());
        let mut shown = String::new();
        for piece in pieces {
            let matched = watcher.push(piece);
            shown.push_str(&matched.text);
            if matched.stopped {
                return (shown, true);
            }
        }
        shown.push_str(&watcher.finish());
        (shown, false)
    }

    #[test]
    fn a_stop_text_across_pieces_ends_the_answer_before_it() {
        assert_eq!(run(&["END"], &["one E", "N", "D two"]), ("one ".into(), true));
    }

    #[test]
    fn a_start_that_goes_on_otherwise_is_shown() {
        assert_eq!(run(&["END"], &["E", "NTER"]), ("ENTER".into(), false));
    }

    #[test]
    fn the_earliest_of_several_counts() {
        assert_eq!(run(&["b", "a"], &["xxab"]), ("xx".into(), true));
    }

    #[test]
    fn what_is_held_back_at_the_end_is_shown() {
        assert_eq!(run(&["\n\n"], &["line\n"]), ("line\n".into(), false));
    }

    #[test]
    fn characters_of_several_bytes_are_never_cut() {
        assert_eq!(run(&["é!"], &["caf", "é", " é!x"]), ("café ".into(), true));
    }
}
