//! `butlerd config`: every setting, for people and for editors.

use clap::{Args, ValueEnum};

use super::Outcome;
use super::out::Out;
use config::{annotated_default, butler_schema, pricing_schema, settings_schema};
use modules::Catalog;

/// `config`
#[derive(Debug, Args)]
pub struct Settings {
    /// Print the JSON Schema of a file instead, with which an editor completes and checks it
    #[arg(long, value_name = "FILE")]
    schema: Option<File>,
}

/// A file of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum File {
    #[value(name = "butlerd.toml")]
    Butlerd,
    #[value(name = "butler.toml")]
    Butler,
    #[value(name = "pricing.toml")]
    Pricing,
}

pub fn run(out: &Out, args: &Settings) -> Outcome {
    let schema = args.schema.map(|file| match file {
        File::Butlerd => settings_schema(),
        File::Butler => butler_schema(Catalog::default().sections()),
        File::Pricing => pricing_schema(),
    });
    match schema {
        Some(schema) => out.value(&schema),
        None if out.json => out.value(&serde_json::json!({"annotated_default": annotated_default()})),
        None => out.line(annotated_default().trim_end()),
    }
    Ok(0)
}
