//! The schemas for editors hold what the checker holds.

use super::super::node::Node;
use super::butlers::FULL;
use super::*;

/// What an editor would mark in a file.
fn marked(schema: &Json, toml: &str) -> Vec<String> {
    let file = Node::parse(toml).unwrap_or_else(|e| panic!("{}", e.reason)).json().unwrap();
    let validator = jsonschema::draft7::new(schema).unwrap();
    validator.iter_errors(&file).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

fn butler() -> Json {
    butler_schema(std::iter::once(("probe", Section::nothing())))
}

#[test]
fn an_editor_marks_nothing_in_a_right_file() {
    assert_eq!(marked(&butler(), FULL), Vec::<String>::new());
    let plain = |line: &str| {
        let key = line.strip_prefix('#').filter(|l| l.starts_with(|c: char| c.is_ascii_lowercase()));
        key.unwrap_or(line).to_owned()
    };
    let settings: Vec<String> = annotated_default().lines().map(plain).collect();
    assert_eq!(marked(&settings_schema(), &settings.join("\n")), Vec::<String>::new());
    assert_eq!(marked(&pricing_schema(), include_str!("../../../config/pricing.toml")), Vec::<String>::new());
}

#[test]
fn an_editor_marks_what_the_checker_tells() {
    let least = "[butler]\nname = \"health\"\nport = 40103\n";
    assert_eq!(marked(&butler(), least), Vec::<String>::new());
    for wrong in [
        "[butler]\nname = \"health\"\n",
        &format!("{least}prot = 1\n"),
        &format!("{least}[butler.runtime]\nmax_turns = 0\n"),
        &format!("{least}[butler.runtime]\nsession_timeout_s = \"1m\"\n"),
        &format!("{least}[runtime]\ntype = \"opencode\"\n"),
        &format!("{least}[[butler.schedule]]\ncron = \"@daily\"\n"),
        &format!("{least}[modules.probe]\nx = 1\n"),
    ] {
        assert_eq!(marked(&butler(), wrong).len(), 1, "{wrong}");
    }
}

#[test]
fn a_key_shows_its_documentation() {
    let schema = settings_schema();
    let ports = &schema["properties"]["daemon"]["properties"]["ports"];
    assert!(ports["description"].as_str().is_some_and(|doc| doc.contains("each butler listens")), "{ports}");
    assert_eq!(ports["default"], "roster");
}
