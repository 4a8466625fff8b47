//! Writes float32 tensors in the safetensors format as they are computed: logits of long sequences do not have to
//! fit into memory.
//!
//! Source: the format's description, <https://huggingface.co/docs/safetensors/index#format>.

use anyhow::Context;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that gets its final name only when it is whole.
pub struct TensorFile {
    target: PathBuf,
    partial: PathBuf,
    file: BufWriter<File>,
    left: u64,
}

impl TensorFile {
    /// Starts a file with tensors `0`, `1`… of the given shapes.
    pub fn create(path: &Path, shapes: &[Vec<usize>]) -> anyhow::Result<Self> {
        let mut header = serde_json::Map::new();
        let mut offset: u64 = 0;
        for (index, shape) in shapes.iter().enumerate() {
            let end = offset + 4 * shape.iter().map(|&size| size as u64).product::<u64>();
            let described =
                serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [offset, end]});
            header.insert(index.to_string(), described);
            offset = end;
        }
        let mut header = serde_json::to_vec(&header)?;
        // Data starts at a multiple of 8, as the format asks.
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut name = path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let file = File::create(&partial).with_context(|| format!("cannot write {}", partial.display()))?;
        let mut made = Self { target: path.to_owned(), partial, file: BufWriter::new(file), left: offset };
        made.put(&(header.len() as u64).to_le_bytes())?;
        made.put(&header)?;
        Ok(made)
    }

    /// Appends values; they go on where the last ones ended.
    pub fn write(&mut self, values: &[f32]) -> anyhow::Result<()> {
        let bytes = 4 * values.len() as u64;
        anyhow::ensure!(bytes <= self.left, "more values than tensors. This is a bug.");
        self.left -= bytes;
        for part in values.chunks(4096) {
            let mut text = [0u8; 4 * 4096];
            for (place, value) in text.chunks_exact_mut(4).zip(part) {
                place.copy_from_slice(&value.to_le_bytes());
            }
            self.put(&text[..4 * part.len()])?;
        }
        Ok(())
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> anyhow::Result<()> {
        anyhow::ensure!(self.left == 0, "{} bytes of tensors are missing. This is a bug.", self.left);
        self.file.flush().with_context(|| format!("cannot write {}", self.partial.display()))?;
        std::fs::rename(&self.partial, &self.target)
            .with_context(|| format!("cannot write {}", self.target.display()))
    }

    fn put(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(bytes).with_context(|| format!("cannot write {}", self.partial.display()))
    }
}

impl Drop for TensorFile {
    fn drop(&mut self) {
        // After `finish` there is nothing of that name; after a failure, half a file helps nobody.
        let _ = std::fs::remove_file(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file_has_header_and_values_and_half_a_file_leaves_nothing() {
        let path = std::env::temp_dir().join(format!("enginewright-tensors-{}", std::process::id()));
        let mut file = TensorFile::create(&path, &[vec![1, 2], vec![1]]).unwrap();
        file.write(&[1.0, 2.0]).unwrap();
        file.write(&[3.0]).unwrap();
        assert!(file.write(&[4.0]).is_err());
        file.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let header_bytes = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert!(header_bytes.is_multiple_of(8));
        let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header_bytes]).unwrap();
        assert_eq!(header["1"], serde_json::json!({"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}));
        assert_eq!(&bytes[8 + header_bytes + 8..], 3f32.to_le_bytes());
        std::fs::remove_file(&path).unwrap();

        let mut half = TensorFile::create(&path, &[vec![2]]).unwrap();
        half.write(&[1.0]).unwrap();
        assert!(half.finish().is_err());
        assert!(!path.exists() && !path.with_extension("partial").exists());
    }
}
