//! The manifest as a constant: properties from `manifest!`, capability names from
//! `export_adapter!`, written as JSON by the compiler.
//!
//! The bytes must exist before the library runs, because the host reads them from the file;
//! so this module is a small JSON writer in `const fn`.

/// The properties of a plugin and its platform. Created by [`manifest!`](crate::manifest).
#[derive(Clone, Copy, Debug)]
pub struct Manifest {
    id: &'static str,
    label: &'static str,
    version: &'static str,
    license: &'static str,
    properties: &'static [Field],
    capabilities: &'static [Field],
}

impl Manifest {
    /// Returns the plugin's id.
    pub const fn id(&self) -> &'static str {
        self.id
    }

    /// Returns the plugin's version.
    pub const fn version(&self) -> &'static str {
        self.version
    }

    /// Returns whether the config path `path` (`token`, `webhook.secret`) is a secret, or part of one.
    pub(crate) fn is_secret(&self, path: &str) -> bool {
        let within = |key: &str| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.properties.iter().any(|(name, value)| match value {
            Value::List(keys) if *name == "secrets" => {
                keys.iter().any(|secret| matches!(secret, Value::Text(secret) if within(secret)))
            }
            _ => false,
        })
    }
}

/// A key and its value.
pub type Field = (&'static str, Value);

/// A JSON value that can be a constant.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Number(u64),
    /// A string.
    Text(&'static str),
    /// A list.
    List(&'static [Value]),
    /// An object.
    Object(&'static [Field]),
}

/// Creates a manifest; the expansion of `manifest!`.
pub const fn manifest(
    id: &'static str,
    label: &'static str,
    version: &'static str,
    license: &'static str,
    properties: &'static [Field],
    capabilities: &'static [Field],
) -> Manifest {
    Manifest { id, label, version, license, properties, capabilities }
}

/// Returns the text, or an empty text for `None`.
pub const fn or_empty(text: Option<&'static str>) -> &'static str {
    match text {
        Some(text) => text,
        None => "",
    }
}

/// A chain of capability names.
#[derive(Debug)]
pub struct Names {
    pub(crate) head: &'static [&'static str],
    pub(crate) tail: Option<&'static Names>,
}

impl Names {
    pub(crate) const fn lists(&self, name: &str) -> bool {
        let mut list = Some(self);
        while let Some(names) = list {
            let mut at = 0;
            while at < names.head.len() {
                if same(names.head[at], name) {
                    return true;
                }
                at += 1;
            }
            list = names.tail;
        }
        false
    }
}

/// The capability of `NativeStream`, which the property `stream` also declares.
pub(crate) const TURN_EVENT: &str = "turn_event";

/// Returns the length of a manifest with these capability names, in bytes.
pub(crate) const fn len(manifest: &Manifest, names: &Names) -> usize {
    write::<0>(manifest, names).at
}

/// Returns a manifest with these capability names.
pub(crate) const fn bytes<const N: usize>(manifest: &Manifest, names: &Names) -> [u8; N] {
    let writer = write::<N>(manifest, names);
    assert!(writer.at == N, "the length of the manifest differs from the measured length");
    writer.bytes
}

const fn write<const N: usize>(manifest: &Manifest, names: &Names) -> Writer<N> {
    refuse_contradictions(manifest, names);
    let mut writer = Writer { bytes: [0; N], at: 0, first: true };
    writer.open();
    writer.field("schema", &Value::Number(1));
    writer.field("id", &Value::Text(manifest.id));
    writer.field("label", &Value::Text(manifest.label));
    writer.field("version", &Value::Text(manifest.version));
    writer.field("sdk", &Value::Text(hermes_adapter_abi::SDK_VERSION));
    writer.field("abi", &Value::Number(hermes_adapter_abi::ABI_VERSION as u64));
    writer.field("target", &Value::Text(env!("HERMES_TARGET")));
    if !manifest.license.is_empty() {
        writer.field("license", &Value::Text(manifest.license));
    }
    writer.fields(manifest.properties);
    writer.raw(",\"capabilities\":");
    writer.open();
    let mut list = Some(names);
    while let Some(names) = list {
        let mut at = 0;
        while at < names.head.len() {
            // The property `stream: native` declares this one.
            if !same(names.head[at], TURN_EVENT) {
                writer.field(names.head[at], &Value::Bool(true));
            }
            at += 1;
        }
        list = names.tail;
    }
    writer.fields(manifest.capabilities);
    writer.raw("}}");
    writer
}

/// Checks that all declarations of `manifest!` have their traits in `export_adapter!`. Runs
/// in the compiler: a contradiction is a compile error.
const fn refuse_contradictions(manifest: &Manifest, names: &Names) {
    let stream = text_of(manifest.capabilities, "stream");
    let native = names.lists(TURN_EVENT);
    assert!(!same(stream, "native") || native, "`stream: native` requires `NativeStream` in export_adapter!");
    assert!(
        !native || same(stream, "native"),
        "`NativeStream` in export_adapter! requires `stream: native` in manifest!"
    );
    assert!(!same(stream, "edit") || names.lists("edit"), "`stream: edit` requires `Edit` in export_adapter!");
    assert!(
        !same(text_of(manifest.capabilities, "delivery"), "reconcilable") || names.lists("lookup"),
        "`delivery: reconcilable` requires `Reconcile` in export_adapter!"
    );
}

const fn text_of(fields: &[Field], key: &str) -> &'static str {
    let mut at = 0;
    while at < fields.len() {
        if let (name, Value::Text(text)) = fields[at] {
            if same(name, key) {
                return text;
            }
        }
        at += 1;
    }
    ""
}

/// Compares strings; `==` is not const.
const fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// A writer of JSON into `N` bytes; with `N` = 0 it only counts.
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
    /// True if the next field is the first of its object.
    first: bool,
}

impl<const N: usize> Writer<N> {
    const fn byte(&mut self, byte: u8) {
        if N > 0 {
            self.bytes[self.at] = byte;
        }
        self.at += 1;
    }

    const fn raw(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self.byte(bytes[at]);
            at += 1;
        }
    }

    const fn string(&mut self, text: &str) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let bytes = text.as_bytes();
        self.byte(b'"');
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                quoted @ (b'"' | b'\\') => {
                    self.byte(b'\\');
                    self.byte(quoted);
                }
                control @ 0..0x20 => {
                    self.raw("\\u00");
                    self.byte(HEX[(control >> 4) as usize]);
                    self.byte(HEX[(control & 15) as usize]);
                }
                byte => self.byte(byte),
            }
            at += 1;
        }
        self.byte(b'"');
    }

    const fn number(&mut self, number: u64) {
        let mut power = 1;
        while number / power >= 10 {
            power *= 10;
        }
        while power > 0 {
            self.byte(b'0' + (number / power % 10) as u8);
            power /= 10;
        }
    }

    /// Starts an object.
    const fn open(&mut self) {
        self.byte(b'{');
        self.first = true;
    }

    const fn field(&mut self, key: &str, value: &Value) {
        if !self.first {
            self.byte(b',');
        }
        self.first = false;
        self.string(key);
        self.byte(b':');
        self.value(value);
    }

    const fn fields(&mut self, fields: &[Field]) {
        let mut at = 0;
        while at < fields.len() {
            self.field(fields[at].0, &fields[at].1);
            at += 1;
        }
    }

    const fn value(&mut self, value: &Value) {
        match value {
            Value::Bool(true) => self.raw("true"),
            Value::Bool(false) => self.raw("false"),
            Value::Number(number) => self.number(*number),
            Value::Text(text) => self.string(text),
            Value::List(values) => {
                self.byte(b'[');
                let mut at = 0;
                while at < values.len() {
                    if at > 0 {
                        self.byte(b',');
                    }
                    self.value(&values[at]);
                    at += 1;
                }
                self.byte(b']');
            }
            Value::Object(fields) => {
                self.open();
                self.fields(fields);
                self.byte(b'}');
                self.first = false;
            }
        }
    }
}
