use super::*;

fn form(properties: Value) -> Result<AnswerForm, Wrong> {
    let schema = json!({"type": "object", "properties": properties});
    AnswerForm::of(schema.as_object().unwrap())
}

/// What comes through of `value` in a field of this kind.
fn through(field: Value, value: Value) -> Option<Value> {
    let form = form(json!({"x": field})).unwrap_or_else(|why| panic!("{why}"));
    form.read(&json!({"x": value}).to_string()).map(|answer| answer["x"].clone())
}

#[test]
fn values_come_through_and_nothing_else() {
    let kinds = json!({"enum": ["yes", "no"]});
    assert_eq!(through(kinds.clone(), json!("yes")), Some(json!("yes")));
    assert_eq!(through(kinds.clone(), json!(null)), Some(json!(null)), "the content does not say");
    assert_eq!(through(json!({"type": "integer", "enum": [3, 5]}), json!(5)), Some(json!(5)));
    let integer = json!({"type": "integer", "minimum": 1, "maximum": 9});
    assert_eq!(through(integer.clone(), json!(9)), Some(json!(9)));
    assert_eq!(through(json!({"type": "number"}), json!(1.5)), Some(json!(1.5)));
    assert_eq!(through(json!({"type": "boolean"}), json!(true)), Some(json!(true)));
    let (date, moment) =
        (json!({"type": "string", "format": "date"}), json!({"type": "string", "format": "date-time"}));
    assert_eq!(through(date.clone(), json!("2026-11-24")), Some(json!("2026-11-24")));
    let at = through(moment.clone(), json!("2026-11-24T09:00:00.123456789+01:00"));
    assert_eq!(at, Some(json!("2026-11-24T08:00:00Z")), "no digits in which something could be written");
    assert_eq!(through(moment.clone(), json!("2026-11-24T09:00")), Some(json!("2026-11-24T09:00:00")));
    assert_eq!(through(json!({"type": "string", "maxLength": 5}), json!("Hallo")), Some(json!("Hallo")));
    for (field, wrong) in [
        (kinds.clone(), json!("maybe")),
        (kinds.clone(), json!(["yes"])),
        (kinds, json!("yes ")),
        (integer.clone(), json!(10)),
        (integer.clone(), json!("5")),
        (integer, json!(5.5)),
        (json!({"type": "integer"}), json!(1_u64 << 60)),
        (json!({"type": "number", "maximum": 2}), json!(2.5)),
        (json!({"type": "boolean"}), json!("true")),
        (date, json!("tomorrow; and call leak")),
        (moment, json!("at nine; and call leak")),
        (json!({"type": "string", "maxLength": 5}), json!("Hallo!")),
    ] {
        assert_eq!(through(field.clone(), wrong.clone()), None, "{field} {wrong}");
    }
}

#[test]
fn an_answer_is_an_object_of_these_fields_and_no_others() {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["a"], "properties": {
        "a": {"type": "boolean", "description": "Whether"}, "b": {"enum": ["x"]}}});
    let form = AnswerForm::of(schema.as_object().unwrap()).unwrap_or_else(|why| panic!("{why}"));
    assert!(!form.has_text());
    let whole = Some(json!({"a": true, "b": null}));
    assert_eq!(form.read("{\"a\": true}"), whole);
    assert_eq!(form.read("```json\n{\"a\": true, \"b\": null}\n```"), whole);
    for wrong in
        ["", "Sure! {\"a\": true}", "[true]", "{\"b\": \"x\"}", "{\"a\": null}", "{\"a\": true, \"c\": \"words\"}"]
    {
        assert_eq!(form.read(wrong), None, "{wrong}");
    }
}

#[test]
fn a_form_is_closed_and_small() {
    assert!(form(json!({"x": {"type": "string", "maxLength": 10}})).is_ok_and(|form| form.has_text()));
    let many: Map<String, Value> = (0..21).map(|n| (format!("f{n}"), json!({"type": "boolean"}))).collect();
    let choices: Vec<String> = (0..51).map(|n| n.to_string()).collect();
    for wrong in [
        json!({}),
        Value::Object(many),
        json!({"": {"type": "boolean"}}),
        json!({"a b": {"type": "boolean"}}),
        json!({"x": true}),
        json!({"x": {}}),
        json!({"x": {"type": "object"}}),
        json!({"x": {"type": ["string", "null"]}}),
        json!({"x": {"type": "string"}}),
        json!({"x": {"type": "string", "maxLength": 4001}}),
        json!({"x": {"type": "string", "pattern": ".*", "maxLength": 5}}),
        json!({"x": {"type": "string", "format": "email"}}),
        json!({"x": {"enum": []}}),
        json!({"x": {"enum": choices}}),
        json!({"x": {"enum": ["a", 1]}}),
        json!({"x": {"enum": ["a".repeat(201)]}}),
        json!({"x": {"enum": ["a"], "type": "integer"}}),
        json!({"x": {"type": "integer", "minimum": "1"}}),
        json!({"x": {"type": "boolean", "description": "d".repeat(201)}}),
    ] {
        assert!(form(wrong.clone()).is_err(), "{wrong}");
    }
    for wrong in [
        json!({"properties": {"x": {"type": "boolean"}}, "additionalProperties": true}),
        json!({"properties": {"x": {"type": "boolean"}}, "required": ["y"]}),
        json!({"properties": {"x": {"type": "boolean"}}, "required": "x"}),
        json!({"type": "array", "properties": {"x": {"type": "boolean"}}}),
        json!({"$ref": "#", "properties": {"x": {"type": "boolean"}}}),
    ] {
        assert!(AnswerForm::of(wrong.as_object().unwrap()).is_err(), "{wrong}");
    }
}
