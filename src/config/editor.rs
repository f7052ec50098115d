//! The JSON Schemas for editors: they complete keys, show their documentation, and mark mistakes while one types.

use serde_json::{Value as Json, json};

use super::butler::ButlerFile;
use super::daemon::Config;
use super::pricing::PricingFile;
use super::schema;
use super::section::Section;

/// The schema of `butlerd.toml`.
pub fn settings_schema() -> Json {
    schema::of::<Config>().to_value()
}

/// The schema of `pricing.toml`.
pub fn pricing_schema() -> Json {
    schema::of::<PricingFile>().to_value()
}

/// The schema of `butler.toml` with the sections of the modules that this build has, by their names. A roster's own
/// module may be there besides.
pub fn butler_schema<'a>(modules: impl Iterator<Item = (&'a str, Section)>) -> Json {
    let mut file = schema::of::<ButlerFile>().to_value();
    for (name, section) in modules {
        let mut form = section.schema().as_value().clone();
        if let Some(map) = form.as_object_mut() {
            map.retain(|key, _| key != "$schema");
        }
        file["properties"]["modules"]["properties"][name] = form;
    }
    file["properties"]["modules"]["additionalProperties"] = json!({"type": "object"});
    file
}
