//! The op table of docs/architecture.md as code: arity and shapes of each kind.

use crate::graph::{Graph, Op, OpKind, Rows, Table};

/// What an op has, and what it should have.
type Mismatch = (String, String);

/// Checks one op whose buffers and weights are known to exist.
pub fn check(graph: &Graph, op: &Op) -> Result<(), Mismatch> {
    let (inputs, outputs) = match op.kind {
        OpKind::Embed { .. } => (0, 1),
        OpKind::KvWrite { .. } => (2, 0),
        OpKind::SelfAttention { .. } | OpKind::DeltaRule { .. } => (3, 1),
        OpKind::SiluMul {}
        | OpKind::SigmoidMul {}
        | OpKind::GatedNorm { .. }
        | OpKind::Experts { .. }
        | OpKind::Add {} => (2, 1),
        _ => (1, 1),
    };
    if (op.inputs.len(), op.outputs.len()) != (inputs, outputs) {
        let value = format!("{} inputs and {} outputs", op.inputs.len(), op.outputs.len());
        return Err((value, format!("{inputs} inputs and {outputs} outputs")));
    }
    let shapes = Shapes { graph, op };
    match &op.kind {
        OpKind::Embed { tables, .. } => shapes.embed(tables),
        OpKind::RmsNorm { .. } => shapes.vectors(&[shapes.width_in(0)]).and(shapes.alike()),
        OpKind::LayerNorm { .. } => {
            shapes.vectors(&[shapes.width_in(0), shapes.width_in(0)]).and(shapes.alike())
        }
        OpKind::HeadNorm { heads, head_dim, .. }
        | OpKind::ZeroCentredNorm { heads, head_dim, .. }
        | OpKind::GatedNorm { heads, head_dim, .. } => {
            shapes.heads(*heads, *head_dim)?;
            shapes.vectors(&[*head_dim]).and(shapes.alike())
        }
        OpKind::Linear {} => shapes.linear(),
        OpKind::Rope { heads, head_dim, rotary, .. } => {
            let whole = rotary % 2 == 0 && 0 < *rotary && rotary <= head_dim;
            require(whole, format!("rotary {rotary}"), format!("even, 2 to {head_dim}, the head_dim"))?;
            shapes.heads(*heads, *head_dim)?;
            shapes.vectors(&[rotary / 2]).and(shapes.alike())
        }
        OpKind::HeadSlice { heads, head_dim, first, count } => {
            let inside = *count > 0 && first.checked_add(*count).is_some_and(|end| end <= *head_dim);
            let expected = format!("values inside a head of {head_dim}");
            require(inside, format!("{count} values from {first}"), expected)?;
            shapes.heads(*heads, *head_dim)?;
            shapes.vectors(&[])?;
            shapes.rows_alike()?;
            shapes.width(1, heads.checked_mul(*count))
        }
        OpKind::CausalConv { kernel, .. } => {
            let channels = shapes.width_in(0);
            let fits = *kernel > 1 && shapes.weight_shapes() == [[channels, 1, *kernel].as_slice()];
            let value = format!("weights of shapes {:?}", shapes.weight_shapes());
            require(fits, value, format!("[{channels}, 1, {kernel}], two rows or more"))?;
            shapes.plain(0)?;
            shapes.tokens_only()?;
            shapes.alike()
        }
        OpKind::DeltaRule { key_heads, value_heads, key_dim, value_dim, .. } => {
            let positive = *key_heads > 0 && *key_dim > 0 && *value_dim > 0 && *value_heads > 0;
            let divides = positive && value_heads % key_heads == 0;
            let expected = "value heads that are a multiple of key heads".to_string();
            require(divides, format!("{value_heads} value heads over {key_heads}"), expected)?;
            let values = value_heads.checked_mul(*value_dim);
            let keys = key_heads.checked_mul(*key_dim).and_then(|keys| keys.checked_mul(2));
            shapes.width(0, keys.zip(values).and_then(|(keys, values)| keys.checked_add(values)))?;
            shapes.width(1, Some(*value_heads))?;
            shapes.width(2, Some(*value_heads))?;
            shapes.width(3, values)?;
            shapes.tokens_only()?;
            shapes.vectors(&[*value_heads, *value_heads])
        }
        OpKind::TopKGate { top_k } => {
            let experts = shapes.width_in(0);
            let fits = (1..=experts).contains(top_k);
            require(fits, format!("top_k {top_k}"), format!("1 to {experts}, the experts"))?;
            shapes.vectors(&[]).and(shapes.alike())
        }
        OpKind::Experts { experts, inner, .. } => {
            let width = shapes.width_in(0);
            shapes.width(1, Some(*experts))?;
            shapes.width(2, Some(width))?;
            shapes.rows_alike()?;
            shapes.experts(*experts, *inner, width)
        }
        OpKind::SigmoidMul {} => {
            let (gates, width) = (shapes.width_in(0), shapes.width_in(1));
            let expected = format!("gates that divide a width of {width}");
            require(gates > 0 && width % gates == 0, format!("{gates} gates"), expected)?;
            shapes.width(2, Some(width))?;
            shapes.rows_alike()?;
            shapes.vectors(&[])
        }
        OpKind::KvWrite { kv_heads, head_dim, .. } => {
            shapes.heads(*kv_heads, *head_dim)?;
            let is_tokens = shapes
                .buffers()
                .all(|(rows, width)| rows == Rows::Tokens && Some(width) == kv_heads.checked_mul(*head_dim));
            require(is_tokens, "other inputs".into(), "two of [tokens, kv_heads * head_dim]".into())?;
            shapes.vectors(&[])
        }
        OpKind::Attention { heads, kv_heads, head_dim, .. } => {
            let divides = *kv_heads > 0 && heads % kv_heads == 0;
            let expected = "query heads that are a multiple of key heads".to_string();
            require(divides, format!("{heads} heads over {kv_heads} key heads"), expected)?;
            shapes.attention(*heads, *head_dim)
        }
        OpKind::SelfAttention { heads, head_dim, .. } => shapes.attention(*heads, *head_dim),
        OpKind::SelectRows {} => shapes.regroup(Rows::Selected),
        OpKind::MeanPool {} | OpKind::FirstPool {} => shapes.regroup(Rows::Segments),
        OpKind::SiluMul {} | OpKind::Add {} | OpKind::Gelu { .. } | OpKind::L2Norm { .. } => {
            shapes.vectors(&[]).and(shapes.alike())
        }
    }
}

fn require(holds: bool, value: String, expected: String) -> Result<(), Mismatch> {
    if holds { Ok(()) } else { Err((value, expected)) }
}

struct Shapes<'a> {
    graph: &'a Graph,
    op: &'a Op,
}

impl Shapes<'_> {
    /// Rows and width of each buffer that the op touches: inputs, then outputs.
    fn buffers(&self) -> impl Iterator<Item = (Rows, u64)> + '_ {
        let names = self.op.inputs.iter().chain(&self.op.outputs);
        names.filter_map(|name| self.graph.buffers.get(name)).map(|buffer| (buffer.rows, buffer.width))
    }

    fn width_in(&self, index: usize) -> u64 {
        self.buffers().nth(index).map_or(0, |(_, width)| width)
    }

    /// Buffer `index` has just this width.
    fn width(&self, index: usize, expected: Option<u64>) -> Result<(), Mismatch> {
        let width = self.width_in(index);
        require(expected == Some(width), format!("buffer {index} of width {width}"), format!("{expected:?}"))
    }

    fn rows_alike(&self) -> Result<(), Mismatch> {
        let rows: Vec<Rows> = self.buffers().map(|(rows, _)| rows).collect();
        let same = rows.windows(2).all(|pair| pair[0] == pair[1]);
        require(same, format!("buffers of {rows:?}"), "buffers of the same rows".into())
    }

    fn tokens_only(&self) -> Result<(), Mismatch> {
        let is_tokens = self.buffers().all(|(rows, _)| rows == Rows::Tokens);
        require(is_tokens, "other rows".into(), "buffers with a row for each token".into())
    }

    fn weight_shapes(&self) -> Vec<&[u64]> {
        self.op.weights.iter().filter_map(|name| self.graph.shape(name)).collect()
    }

    /// All buffers have the same rows and width.
    fn alike(&self) -> Result<(), Mismatch> {
        let all: Vec<_> = self.buffers().collect();
        let same = all.windows(2).all(|pair| pair[0] == pair[1]);
        require(same, format!("buffers of {all:?}"), "buffers of the same rows and width".into())
    }

    /// The weights are vectors of just these lengths, of plain floats.
    fn vectors(&self, lengths: &[u64]) -> Result<(), Mismatch> {
        let shapes = self.weight_shapes();
        let expected: Vec<Vec<u64>> = lengths.iter().map(|&length| vec![length]).collect();
        require(shapes == expected, format!("weights of shapes {shapes:?}"), format!("{expected:?}"))?;
        self.plain(0)
    }

    /// Weights from number `first` on are plain floats: kernels get them as float32.
    fn plain(&self, first: usize) -> Result<(), Mismatch> {
        for name in self.op.weights.iter().skip(first) {
            let Some(weight) = self.graph.weights.get(name) else {
                continue;
            };
            let expected = "f32, f16 or bf16, as norm weights and biases are".to_string();
            require(weight.dtype.is_float(), format!("{name} of {:?}", weight.dtype), expected)?;
        }
        Ok(())
    }

    /// Gate, up and down of each expert, all of one stored type.
    fn experts(&self, experts: u64, inner: u64, width: u64) -> Result<(), Mismatch> {
        let (into, out) = ([inner, width], [width, inner]);
        let each = [into.as_slice(), into.as_slice(), out.as_slice()];
        let shapes = self.weight_shapes();
        let fits = shapes.len() as u64 == experts.saturating_mul(3)
            && shapes.chunks_exact(3).all(|shapes| shapes == each);
        let expected = format!("gate, up and down of {experts} experts: {each:?}");
        require(fits, format!("{} weights of other shapes", shapes.len()), expected)?;
        let mut types = self.op.weights.iter().map(|name| self.graph.weights.get(name).map(|w| w.dtype));
        let first = types.next().flatten();
        let same = first.is_some() && types.all(|other| other == first);
        require(same, "matrices of several types".into(), "stored matrices of one type".into())
    }

    fn embed(&self, tables: &[Table]) -> Result<(), Mismatch> {
        let width = self.width_in(0);
        let shapes = self.weight_shapes();
        let fits = tables.first() == Some(&Table::Token)
            && tables.len() == shapes.len()
            && shapes.iter().all(|shape| shape.len() == 2 && shape[1] == width)
            && self.buffers().all(|(rows, _)| rows == Rows::Tokens);
        let value = format!("tables {tables:?} with weights of shapes {shapes:?}");
        require(fits, value, format!("one [n, {width}] weight a table, the token table first"))
    }

    fn linear(&self) -> Result<(), Mismatch> {
        let shapes = self.weight_shapes();
        let rows: Vec<Rows> = self.buffers().map(|(rows, _)| rows).collect();
        let matrix = [self.width_in(1), self.width_in(0)];
        let fits = rows[0] == rows[1]
            && (1..=2).contains(&shapes.len())
            && shapes[0] == matrix
            && shapes.get(1).is_none_or(|bias| *bias == &matrix[..1]);
        let expected = format!("{matrix:?} and an optional bias of [{}], rows alike", matrix[0]);
        require(fits, format!("weights of shapes {shapes:?} from {:?} to {:?}", rows[0], rows[1]), expected)?;
        self.plain(1)
    }

    /// The first input holds `heads` heads.
    fn heads(&self, heads: u64, head_dim: u64) -> Result<(), Mismatch> {
        let width = self.width_in(0);
        let fits = heads > 0 && head_dim > 0 && heads.checked_mul(head_dim) == Some(width);
        require(fits, format!("{heads} heads of {head_dim}"), format!("heads that fill a width of {width}"))
    }

    fn attention(&self, heads: u64, head_dim: u64) -> Result<(), Mismatch> {
        self.heads(heads, head_dim)?;
        let is_tokens = self.buffers().all(|(rows, _)| rows == Rows::Tokens);
        require(is_tokens, "other rows".into(), "buffers with a row for each token".into())?;
        self.vectors(&[]).and(self.alike())
    }

    /// One width, from tokens to rows of another kind.
    fn regroup(&self, after: Rows) -> Result<(), Mismatch> {
        let all: Vec<_> = self.buffers().collect();
        let fits = all[0].0 == Rows::Tokens && all[1].0 == after && all[0].1 == all[1].1;
        require(fits, format!("{all:?}"), format!("from Tokens to {after:?}, of one width"))?;
        self.vectors(&[])
    }
}
