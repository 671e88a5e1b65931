//! Guests that consist of more than their own module.

use wasmparser::{Parser, Payload};

/// Adds so many instances of a core module to a component, beside what is in it already.
pub fn with_core_instances(mut component: Vec<u8>, module: &str, count: u32) -> Vec<u8> {
    let module = wat::parse_str(module).unwrap();
    let place = core_modules(&component);
    section(&mut component, 1, &module);
    let mut instances = Vec::new();
    number(&mut instances, count);
    for _ in 0..count {
        // Made of a module, which is given nothing.
        instances.push(0);
        number(&mut instances, place);
        instances.push(0);
    }
    section(&mut component, 2, &instances);
    component
}

/// How many core modules stand in a component itself.
fn core_modules(component: &[u8]) -> u32 {
    let (mut depth, mut count) = (0, 0);
    for payload in Parser::new(0).parse_all(component).map(Result::unwrap) {
        count += u32::from(depth == 0 && matches!(payload, Payload::ModuleSection { .. }));
        if matches!(payload, Payload::ModuleSection { .. } | Payload::ComponentSection { .. }) {
            depth += 1;
        } else if matches!(payload, Payload::End(_)) {
            depth -= 1;
        }
    }
    count
}

fn section(component: &mut Vec<u8>, id: u8, content: &[u8]) {
    component.push(id);
    number(component, u32::try_from(content.len()).unwrap());
    component.extend_from_slice(content);
}

/// An unsigned number in LEB128.
fn number(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
}
