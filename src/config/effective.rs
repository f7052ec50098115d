//! Every setting as it holds, with its default and where it comes from: for a page that shows them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::annotate::toml;
use super::schema::{Kind, Table};

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Setting")]
pub struct EffectiveSetting {
    /// `admin.listen`
    pub key: String,
    /// What it is for.
    pub doc: String,
    /// As TOML has it. `None`: it is not set and has no default; or it may hold a password and is not shown.
    pub value: Option<String>,
    /// It may hold a password.
    pub hidden: bool,
    pub default: Option<String>,
    /// Who set it; `None`: nobody.
    pub source: Option<SettingSource>,
}

/// Who set a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SettingSource {
    /// A file, `environment` or `command line`.
    pub place: String,
    pub line: Option<usize>,
    /// The key, variable or flag.
    pub name: String,
}

/// All settings of a table and those below it. `merged` is what all layers and the defaults come to.
pub(super) fn effective(
    table: &Table,
    merged: &Map<String, Json>,
    source: &dyn Fn(&str) -> Option<SettingSource>,
) -> Vec<EffectiveSetting> {
    let mut all = Vec::new();
    walk(table, "", Some(merged), source, &mut all);
    all
}

fn walk(
    table: &Table,
    path: &str,
    values: Option<&Map<String, Json>>,
    source: &dyn Fn(&str) -> Option<SettingSource>,
    all: &mut Vec<EffectiveSetting>,
) {
    for key in &table.keys {
        let full = if path.is_empty() { key.name.clone() } else { format!("{path}.{}", key.name) };
        let value = values.and_then(|values| values.get(&key.name)).filter(|value| !value.is_null());
        if let Kind::Table(inner) = &key.kind {
            walk(inner, &full, value.and_then(Json::as_object), source, all);
            continue;
        }
        let hidden = matches!(&key.kind, Kind::Text(rule) if rule.is_secret());
        all.push(EffectiveSetting {
            source: source(&full),
            value: value.filter(|_| !hidden).map(toml),
            hidden,
            default: key.default.as_ref().map(toml),
            doc: key.doc.clone(),
            key: full,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::daemon::CONFIG;
    use super::*;

    #[test]
    fn a_setting_says_where_it_comes_from_and_no_password() {
        let mut merged =
            serde_json::json!({"database": {"url": "postgres://u:secret@h/d"}, "admin": {"listen": "127.0.0.1:1"}});
        let merged = merged.as_object_mut().unwrap();
        CONFIG.fill(merged);
        let of = |key: &str| {
            (key == "admin.listen").then(|| SettingSource {
                place: "butlerd.toml".into(),
                line: Some(7),
                name: key.into(),
            })
        };
        let all = effective(&CONFIG, merged, &of);
        let found = |key: &str| all.iter().find(|s| s.key == key).unwrap();
        let listen = found("admin.listen");
        assert_eq!(listen.value.as_deref(), Some("\"127.0.0.1:1\""));
        assert_eq!(listen.source.as_ref().and_then(|s| s.line), Some(7));
        assert_eq!(found("admin.max_body").value, found("admin.max_body").default);
        let url = found("database.url");
        assert!(url.hidden && url.value.is_none());
        assert!(!format!("{all:?}").contains("secret@"));
    }
}
