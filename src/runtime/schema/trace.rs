//! The schema of a type, asked of the way in which it reads itself.
//!
//! serde's `Deserialize` says what it wants before it gets anything: a struct names its fields, an enum its variants,
//! a list asks for an item. [`Trace`] is a deserialiser that has no input: it writes down what it is asked for, and
//! hands out zeros and empty texts. So the schema cannot drift from the types, and they need nothing for it.
//!
//! Left out: what holds beyond the type (ranges, what belongs together); `sluicegate validate` checks that.

use super::docs::Source;
use super::{count, described, or_null, pattern};
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de, forward_to_deserialize_any};
use serde_json::{Map, Value, json};

/// The schema of a type; anything where it cannot be told.
pub fn of<T: for<'de> Deserialize<'de>>(docs: &Source) -> Value {
    by(docs, |trace| T::deserialize(trace).map(drop))
}

/// The schema of whatever this reads.
pub fn by(docs: &Source, read: impl FnOnce(Trace<'_>) -> Result<(), Error>) -> Value {
    let mut schema = json!({});
    // What was asked for before a refusal is written down.
    let _ = read(Trace { schema: &mut schema, docs });
    schema
}

/// Adds the values that hold where a file says nothing.
pub fn add_defaults(schema: &mut Value, defaults: &Value) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        if let (Value::Object(schema), false) = (schema, defaults.is_null()) {
            schema.insert("default".into(), defaults.clone());
        }
        return;
    };
    for (name, property) in properties {
        add_defaults(property, defaults.get(name).unwrap_or(&Value::Null));
    }
}

pub struct Trace<'s> {
    schema: &'s mut Value,
    docs: &'s Source,
}

impl<'s> Trace<'s> {
    /// The same for a part of what is read.
    fn at<'p>(&self, schema: &'p mut Value) -> Trace<'p>
    where
        's: 'p,
    {
        Trace { schema, docs: self.docs }
    }
}

impl<'de> Deserializer<'de> for Trace<'_> {
    type Error = Error;

    /// Whatever takes anything takes a number.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(0)
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "boolean"});
        visitor.visit_bool(false)
    }
    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "integer", "minimum": 0, "maximum": u8::MAX});
        visitor.visit_u64(0)
    }
    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "integer", "minimum": 0, "maximum": u16::MAX});
        visitor.visit_u64(0)
    }
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
        visitor.visit_u64(0)
    }
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = count();
        visitor.visit_u64(0)
    }
    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "integer"});
        visitor.visit_i64(0)
    }
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "number"});
        visitor.visit_f64(0.0)
    }
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.schema = json!({"type": "string"});
        visitor.visit_str("")
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut schema = json!({});
        let value = visitor.visit_some(self.at(&mut schema));
        *self.schema = or_null(schema);
        value
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        let mut schema = json!({});
        let value = visitor.visit_newtype_struct(self.at(&mut schema));
        let (spelled, about) = match name {
            "Time" => ("^[0-9]+ *(ms|s|m|h)?$", "50ms, 30s, 15m, 24h, or a number of milliseconds"),
            "Size" => ("^[0-9]+ *(B|KiB|MiB|GiB)?$", "512KiB, 64MiB, 2GiB, or a number of bytes"),
            _ => {
                *self.schema = schema;
                return value;
            }
        };
        let mut quantity = pattern(spelled);
        quantity["type"] = json!(["string", "integer"]);
        quantity["minimum"] = json!(0);
        *self.schema = described(quantity, about);
        value
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut items = json!({});
        let value = visitor.visit_seq(Once(Some(self.at(&mut items))));
        *self.schema = super::list(items);
        value
    }
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let (mut names, mut values) = (json!({}), json!({}));
        let entry = Entry { name: Some(self.at(&mut names)), value: Some(self.at(&mut values)) };
        let value = visitor.visit_map(entry);
        *self.schema = json!({"type": "object", "additionalProperties": values});
        if names.get("enum").is_some() {
            self.schema["propertyNames"] = names;
        }
        value
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let mut properties = Map::new();
        let members =
            Members { of: name, fields: fields.iter(), now: None, properties: &mut properties, docs: self.docs };
        let value = visitor.visit_map(members);
        *self.schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        value
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.schema = super::one_of(variants);
        let first: StrDeserializer<'de, Error> = variants.first().copied().unwrap_or_default().into_deserializer();
        visitor.visit_enum(first)
    }
    forward_to_deserialize_any! {
        i8 i16 i32 i128 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// A list of one item.
struct Once<'s>(Option<Trace<'s>>);

impl<'de> SeqAccess<'de> for Once<'_> {
    type Error = Error;
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.0.take().map(|item| seed.deserialize(item)).transpose()
    }
}

/// A map of one entry.
struct Entry<'s> {
    name: Option<Trace<'s>>,
    value: Option<Trace<'s>>,
}

impl<'de> MapAccess<'de> for Entry<'_> {
    type Error = Error;
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.name.take().map(|name| seed.deserialize(name)).transpose()
    }
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let value = self.value.take().ok_or_else(|| de::Error::custom("a map of one entry"))?;
        seed.deserialize(value)
    }
}

/// Every field of a struct, once.
struct Members<'s> {
    of: &'static str,
    fields: std::slice::Iter<'static, &'static str>,
    now: Option<&'static str>,
    properties: &'s mut Map<String, Value>,
    docs: &'s Source,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Error;
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.now = self.fields.next().copied();
        let field = |name: &'static str| -> StrDeserializer<'static, Error> { name.into_deserializer() };
        self.now.map(|name| seed.deserialize(field(name))).transpose()
    }
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let name = self.now.take().ok_or_else(|| de::Error::custom("a field without a name"))?;
        let mut schema = json!({});
        let value = seed.deserialize(Trace { schema: &mut schema, docs: self.docs });
        let (unit, about) = (schema["description"].as_str().unwrap_or_default(), self.docs.of(self.of, name));
        let said = if unit.is_empty() || about.is_empty() { about.to_owned() } else { format!("{about} ({unit})") };
        self.properties.insert(name.to_owned(), described(schema, &said));
        value
    }
}
