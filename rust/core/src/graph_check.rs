//! Whether a graph can be true: names, order, shapes and sizes. Says the first thing that cannot.

use crate::error::EngineError;
use crate::graph::{FORMAT, Graph, ModelKind, Op, OpKind, Rows, Table};
use crate::read_json::Place;
use std::collections::HashSet;
use std::path::{Component, Path};

/// Largest dimension, width or count that is believed: keeps products within 64 bits.
const MOST: u64 = 1 << 31;

const HINT: &str = "make the engine again from its checkpoint";

/// Checks everything that `graph.json` says about itself.
///
/// # Errors
/// [`EngineError::Invalid`] naming the first wrong field.
pub fn check(path: &str, graph: &Graph) -> Result<(), EngineError> {
    let place = Place { path, hint: HINT };
    if graph.format != FORMAT {
        return Err(place.invalid("format", &graph.format, FORMAT));
    }
    check_dimensions(&place, graph)?;
    check_files(&place, graph)?;
    check_weights(&place, graph)?;
    check_ops(&place, graph)?;
    check_readers(&place, graph)?;
    check_output(&place, graph)
}

fn check_dimensions(place: &Place<'_>, graph: &Graph) -> Result<(), EngineError> {
    let sizes = &graph.dimensions;
    let named = [
        ("hidden", sizes.hidden),
        ("layers", sizes.layers),
        ("heads", sizes.heads),
        ("kv_heads", sizes.kv_heads),
        ("head_dim", sizes.head_dim),
        ("feed_forward", sizes.feed_forward),
        ("vocabulary", sizes.vocabulary),
        ("context", sizes.context),
    ];
    for (name, size) in named {
        if size == 0 || size >= MOST {
            return Err(place.invalid(format!("dimensions.{name}"), size, format!("1 to {}", MOST - 1)));
        }
    }
    for (name, buffer) in &graph.buffers {
        if buffer.width == 0 || buffer.width >= MOST {
            let field = format!("buffers.{name}.width");
            return Err(place.invalid(field, buffer.width, format!("1 to {}", MOST - 1)));
        }
    }
    Ok(())
}

fn check_files(place: &Place<'_>, graph: &Graph) -> Result<(), EngineError> {
    for (index, file) in graph.files.iter().enumerate() {
        let stays_inside = !file.path.is_empty()
            && Path::new(&file.path).components().all(|part| matches!(part, Component::Normal(_)));
        if !stays_inside {
            let field = format!("files[{index}].path");
            return Err(place.invalid(
                field,
                &file.path,
                "a relative path without `..`, inside the checkpoint's folder",
            ));
        }
    }
    Ok(())
}

fn check_weights(place: &Place<'_>, graph: &Graph) -> Result<(), EngineError> {
    for (name, weight) in &graph.weights {
        let field = |part: &str| format!("weights.{name}.{part}");
        let Some(file) = graph.files.get(weight.file) else {
            let expected = format!("an index below {}, the number of files", graph.files.len());
            return Err(place.invalid(field("file"), weight.file, expected));
        };
        check_shape(place, &field("shape"), &weight.shape)?;
        match weight.dtype.tensor_bytes(&weight.shape) {
            Some(bytes) if bytes == weight.bytes => {}
            Some(bytes) => {
                let expected = format!("{bytes}, for {:?} of shape {:?}", weight.dtype, weight.shape);
                return Err(place.invalid(field("bytes"), weight.bytes, expected));
            }
            None => {
                let expected = format!("rows that are a multiple of {} values", weight.dtype.block_values());
                return Err(place.invalid(field("shape"), format!("{:?}", weight.shape), expected));
            }
        }
        let end = weight.offset.checked_add(weight.bytes);
        if end.is_none_or(|end| end > file.bytes) {
            let expected = format!("at most {} bytes, the size of {}", file.bytes, file.path);
            let value = format!("{} + {}", weight.offset, weight.bytes);
            return Err(place.invalid(field("offset + bytes"), value, expected));
        }
    }
    for (name, constant) in &graph.constants {
        let field = |part: &str| format!("constants.{name}.{part}");
        check_shape(place, &field("shape"), &constant.shape)?;
        let size: u64 = constant.shape.iter().product();
        if size != constant.values.len() as u64 {
            let expected = format!("{size} values, for shape {:?}", constant.shape);
            return Err(place.invalid(field("values"), constant.values.len(), expected));
        }
        if let Some(value) = constant.values.iter().find(|value| !value.is_finite()) {
            return Err(place.invalid(field("values"), value, "finite numbers"));
        }
        if graph.weights.contains_key(name) {
            return Err(place.invalid(field("name"), name, "a name that no weight has"));
        }
    }
    Ok(())
}

/// One to four sizes, each positive, with a product that 64 bits hold comfortably.
fn check_shape(place: &Place<'_>, field: &str, shape: &[u64]) -> Result<(), EngineError> {
    let product = shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size));
    let fits = (1..=4).contains(&shape.len())
        && shape.iter().all(|&size| 0 < size && size < MOST)
        && product.is_some_and(|product| product < 1 << 48);
    if fits {
        return Ok(());
    }
    Err(place.invalid(field, format!("{shape:?}"), format!("1 to 4 sizes, each of 1 to {}", MOST - 1)))
}

fn check_ops(place: &Place<'_>, graph: &Graph) -> Result<(), EngineError> {
    let mut ids = HashSet::new();
    let mut written = HashSet::new();
    let mut cached = HashSet::new();
    let mut carried = HashSet::new();
    for (index, op) in graph.ops.iter().enumerate() {
        if !ids.insert(op.id.as_str()) {
            return Err(place.invalid(format!("ops[{index}].id"), &op.id, "an id that no other op has"));
        }
        let field = |part: &str| format!("ops.{}.{part}", op.id);
        for name in &op.inputs {
            if !written.contains(name.as_str()) {
                return Err(place.invalid(field("inputs"), name, "a buffer that an earlier op writes"));
            }
        }
        for name in &op.outputs {
            if !graph.buffers.contains_key(name) {
                return Err(place.invalid(field("outputs"), name, "a name in `buffers`"));
            }
            if !written.insert(name.as_str()) {
                return Err(place.invalid(field("outputs"), name, "a buffer that no other op writes"));
            }
        }
        for name in &op.weights {
            if graph.shape(name).is_none() {
                return Err(place.invalid(field("weights"), name, "a name in `weights` or `constants`"));
            }
        }
        check_layer(place, graph, op, &mut cached)?;
        check_recurrence(place, graph, op, &mut carried)?;
        if let Err((value, expected)) = crate::op_check::check(graph, op) {
            return Err(place.invalid(format!("ops.{}", op.id), value, expected));
        }
    }
    Ok(())
}

/// Layers are in range, written once before they are read, and always of one width.
fn check_layer(
    place: &Place<'_>,
    graph: &Graph,
    op: &Op,
    cached: &mut HashSet<(u64, u64)>,
) -> Result<(), EngineError> {
    let field = |part: &str| format!("ops.{}.{part}", op.id);
    let Some(site) = op.cache_site() else {
        return Ok(());
    };
    if graph.kind == ModelKind::Encoder {
        return Err(place.invalid(field("kind"), "an op with a cache", "none: an encoder has no cache"));
    }
    if site.layer >= graph.dimensions.layers {
        let expected = format!("below {}, the number of layers", graph.dimensions.layers);
        return Err(place.invalid(field("attributes.layer"), site.layer, expected));
    }
    match op.kind {
        OpKind::KvWrite { .. } => {
            if cached.iter().any(|&(layer, _)| layer == site.layer) {
                let expected = "a layer that no other `kv_write` fills";
                return Err(place.invalid(field("attributes.layer"), site.layer, expected));
            }
            cached.insert((site.layer, site.width));
        }
        _ if !cached.contains(&(site.layer, site.width)) => {
            let value = format!("layer {}, {} values a position", site.layer, site.width);
            return Err(place.invalid(
                field("attributes"),
                value,
                "a cache that an earlier `kv_write` fills",
            ));
        }
        _ => {}
    }
    Ok(())
}

/// A decoder's layer carries one state of each kind.
fn check_recurrence<'a>(
    place: &Place<'_>,
    graph: &Graph,
    op: &'a Op,
    carried: &mut HashSet<(u64, &'a str)>,
) -> Result<(), EngineError> {
    let Some((layer, kind)) = op.recurrence() else {
        return Ok(());
    };
    let field = |part: &str| format!("ops.{}.{part}", op.id);
    if graph.kind == ModelKind::Encoder {
        return Err(place.invalid(field("kind"), kind, "none that carries a state: this is an encoder"));
    }
    if layer >= graph.dimensions.layers {
        let expected = format!("below {}, the number of layers", graph.dimensions.layers);
        return Err(place.invalid(field("attributes.layer"), layer, expected));
    }
    if !carried.insert((layer, kind)) {
        return Err(place.invalid(field("attributes.layer"), layer, format!("one `{kind}` a layer")));
    }
    Ok(())
}

/// Every buffer has a reader: one without has no place in memory when its op is fused with others.
fn check_readers(place: &Place<'_>, graph: &Graph) -> Result<(), EngineError> {
    let read: HashSet<&str> = graph.ops.iter().flat_map(|op| &op.inputs).map(String::as_str).collect();
    for op in &graph.ops {
        let unread = |name: &&String| !read.contains(name.as_str()) && **name != graph.output;
        if let Some(name) = op.outputs.iter().find(unread) {
            let field = format!("ops.{}.outputs", op.id);
            return Err(place.invalid(field, name, "a buffer that another op reads, or the output"));
        }
    }
    Ok(())
}

fn check_output(place: &Place<'_>, graph: &Graph) -> Result<(), EngineError> {
    let wanted = match graph.kind {
        ModelKind::Decoder => Rows::Selected,
        ModelKind::Encoder => Rows::Segments,
    };
    let is_written = graph.ops.iter().any(|op| op.outputs.contains(&graph.output));
    let Some(output) = graph.buffers.get(&graph.output).filter(|_| is_written) else {
        return Err(place.invalid("output", &graph.output, "a buffer that an op writes"));
    };
    if output.rows != wanted {
        let expected = format!("a buffer with {wanted:?} rows, for a {:?}", graph.kind);
        return Err(place.invalid("output", format!("a buffer with {:?} rows", output.rows), expected));
    }
    if graph.kind == ModelKind::Decoder && output.width != graph.dimensions.vocabulary {
        let expected = format!("{}, the vocabulary", graph.dimensions.vocabulary);
        return Err(place.invalid(format!("buffers.{}.width", graph.output), output.width, expected));
    }
    check_tables(place, graph)
}

/// Every token id and every position has a row in its table: kernels index without looking.
fn check_tables(place: &Place<'_>, graph: &Graph) -> Result<(), EngineError> {
    for op in &graph.ops {
        let OpKind::Embed { tables, position_offset } = &op.kind else {
            continue;
        };
        for (table, name) in tables.iter().zip(&op.weights) {
            let needed = match table {
                Table::Token => graph.dimensions.vocabulary,
                Table::Position => graph.dimensions.context.saturating_add(*position_offset),
                Table::Type => 1,
            };
            let rows = graph.shape(name).and_then(|shape| shape.first().copied()).unwrap_or(0);
            if rows < needed {
                let field = format!("weights.{name}.shape");
                return Err(place.invalid(field, format!("{rows} rows"), format!("at least {needed} rows")));
            }
        }
    }
    Ok(())
}
