//! A step made ready to run: its launches with every address filled in, captured as one CUDA graph for each bucket of
//! rows.

use crate::abi::{Call, Phase};
use crate::device::{Device, failed};
use cudarc::driver::{result, sys};
use enginewright_core::error::EngineError;
use std::collections::BTreeMap;

/// What the rows of a launch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsOf {
    Tokens,
    Selected,
    Segments,
}

/// One phase of one group.
pub struct Launch {
    pub function: sys::CUfunction,
    pub call: Call,
    pub phase: Phase,
    pub rows: RowsOf,
    pub group: usize,
}

impl Launch {
    /// Puts the launch on the stream, on a grid `tall` blocks high.
    fn put(&mut self, device: &Device, tall: u32) -> Result<(), EngineError> {
        let Phase { threads, blocks, shared_bytes, early, .. } = self.phase;
        let mut overlap = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: blocks,
            gridDimY: tall,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared_bytes,
            hStream: device.stream(),
            attrs: &raw mut overlap,
            numAttrs: u32::from(early != 0),
        };
        let mut arguments = [(&raw mut self.call).cast()];
        // SAFETY: the call is what the contract wants; it and the attribute are copied by the launch.
        unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                self.function,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
        .result()
        .map_err(failed("cuLaunchKernelEx"))
    }
}

/// How much a captured graph has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket {
    pub rows: u32,
    pub selected: u32,
}

impl Bucket {
    /// The least bucket with room: powers of two, up to the step's own limits.
    pub fn of(rows: usize, selected: usize, most_rows: usize, most_selected: usize) -> Self {
        let up = |count: usize, most: usize| count.max(1).next_power_of_two().min(most.max(1)) as u32;
        Self { rows: up(rows, most_rows), selected: up(selected, most_selected) }
    }
}

/// A step.
pub struct Program {
    launches: Vec<Launch>,
    graphs: BTreeMap<Bucket, Graph>,
    /// Address of the answer.
    pub output: u64,
    pub groups: usize,
}

// SAFETY: handles of the driver, used by whoever made the context current.
unsafe impl Send for Program {}

/// A captured step.
struct Graph(sys::CUgraphExec);

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: instantiated by `capture`, destroyed once.
        let _ = unsafe { result::graph::exec_destroy(self.0) };
    }
}

impl Program {
    pub fn new(launches: Vec<Launch>, output: u64, groups: usize) -> Self {
        Self { launches, graphs: BTreeMap::new(), output, groups }
    }

    /// Puts the whole step on the stream; captures it first if no step of this size ran before.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the driver refuses.
    pub fn launch(&mut self, device: &Device, bucket: Bucket) -> Result<(), EngineError> {
        if !self.graphs.contains_key(&bucket) {
            let graph = self.capture(device, bucket)?;
            self.graphs.insert(bucket, graph);
        }
        // SAFETY: the graph's launches were made by this program and their memory lives as long as the executor.
        unsafe { result::graph::launch(self.graphs[&bucket].0, device.stream()) }
            .map_err(failed("cuGraphLaunch"))
    }

    fn capture(&mut self, device: &Device, bucket: Bucket) -> Result<Graph, EngineError> {
        let stream = device.stream();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is the device's own and nothing else uses it.
        unsafe { result::stream::begin_capture(stream, mode) }.map_err(failed("cuStreamBeginCapture"))?;
        let launched = self.launch_each(device, bucket, |_| Ok(()));
        // SAFETY: the capture was begun above; it is ended whatever happened in between.
        let captured = unsafe { result::stream::end_capture(stream) }.map_err(failed("cuStreamEndCapture"));
        launched?;
        let graph = captured?;
        // SAFETY: a whole graph; the executable copy does not need it afterwards.
        unsafe {
            let flags = sys::CUgraphInstantiate_flags(0);
            let ready = result::graph::instantiate(graph, flags).map_err(failed("cuGraphInstantiate"));
            let _ = result::graph::destroy(graph);
            let ready = Graph(ready?);
            result::graph::upload(ready.0, stream).map_err(failed("cuGraphUpload"))?;
            Ok(ready)
        }
    }

    /// Launches phase by phase; calls `after` behind the last phase of each group.
    ///
    /// # Errors
    /// [`EngineError::Device`] if a launch is refused, or what `after` says.
    pub fn launch_each(
        &mut self,
        device: &Device,
        bucket: Bucket,
        mut after: impl FnMut(usize) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        for index in 0..self.launches.len() {
            let is_last =
                self.launches.get(index + 1).is_none_or(|next| next.group != self.launches[index].group);
            let launch = &mut self.launches[index];
            let rows = match launch.rows {
                RowsOf::Tokens | RowsOf::Segments => bucket.rows,
                RowsOf::Selected => bucket.selected,
            };
            let tall =
                if launch.phase.rows_per_block == 0 { 1 } else { rows.div_ceil(launch.phase.rows_per_block) };
            launch.put(device, tall)?;
            if is_last {
                after(self.launches[index].group)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Bucket;

    #[test]
    fn a_bucket_has_room_and_never_passes_the_limits() {
        let of = |rows, selected| Bucket::of(rows, selected, 200, 8);
        assert_eq!(of(1, 1), Bucket { rows: 1, selected: 1 });
        assert_eq!(of(3, 0), Bucket { rows: 4, selected: 1 });
        assert_eq!(of(129, 5), Bucket { rows: 200, selected: 8 });
        for rows in 1..=200 {
            assert!(of(rows, 1).rows as usize >= rows);
        }
    }
}
