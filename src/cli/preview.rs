//! `butlerd trigger --dry-run`

use serde_json::Value;

use super::out::{Out, Tone};
use super::problem::FAILED;
use super::text::one_line;
use super::{Caller, Outcome};
use admin::api::WorkApiClient;
use sessions::Preview;
use sessions::budget::LimitLeft;

pub async fn run(caller: &Caller, butler: String, prompt: String, context: Option<Value>) -> Outcome {
    let preview = caller.got(caller.quick()?.trigger_preview(butler, prompt, context).await)?;
    caller.out.answer(&preview, show)?;
    Ok(if preview.refusal.is_some() { FAILED } else { 0 })
}

fn show(out: &Out, p: &Preview) {
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let program = p.program.as_ref().map_or_else(|| "unknown".to_owned(), |path| path.display().to_string());
    let bound = p.price_bound.usd.map_or_else(String::new, |usd| format!("at most {usd}: "));
    let mut fields = out
        .fields()
        .field("butler", &p.butler)
        .field("runtime", format!("{}, {program}", p.runtime))
        .field("model", p.model.as_deref().unwrap_or("the program's own default"))
        .field("tools", super::events::tools(&p.chosen_tools, p.more_tools, p.tool_tokens))
        .field("built in", (!p.built_in_tools.is_empty()).then(|| list(&p.built_in_tools)))
        .field("environment", list(&p.environment))
        .field(
            "limits",
            format!("{} model calls, {} tool calls, {}", p.max_turns, p.max_tool_calls, p.session_timeout),
        );
    for limit in &p.limits {
        fields = fields.field("budget", left(limit));
    }
    fields.field("price", format!("{bound}{}", p.price_bound.meaning)).print();
    out.section("system prompt", p.system_prompt.as_deref().unwrap_or_default());
    out.section("user prompt", &p.user_prompt);
    out.line("");
    match &p.refusal {
        None => out.line("Nothing was started."),
        Some(refusal) => {
            out.line(&format!("{} {}", out.paint(Tone::Bad, "It would be refused:"), one_line(&refusal.message, 1000)));
        }
    }
}

/// One limit, as people say it.
fn left(limit: &LimitLeft) -> String {
    let usd = limit.left_usd.zip(limit.limit_usd).map(|(left, most)| format!("{left} of {most}"));
    let tokens = limit.left_tokens.zip(limit.limit_tokens).map(|(left, most)| format!("{left} of {most} tokens"));
    let parts: Vec<String> = usd.into_iter().chain(tokens).collect();
    let anew = limit.starts_anew.as_ref().map(|at| format!(", anew at {at}")).unwrap_or_default();
    format!("{}: {} left{anew}", limit.scope, parts.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Money;

    #[test]
    fn a_limit_says_what_is_left_and_when_it_starts_anew() {
        let mut limit = LimitLeft {
            scope: "butler's day".into(),
            limit_usd: Money::parse("5"),
            left_usd: Money::parse("1.25"),
            limit_tokens: Some(100),
            left_tokens: Some(0),
            starts_anew: Some("2026-03-02 00:00 Europe/Berlin".into()),
        };
        let said = "butler's day: $1.25 of $5.00 and 0 of 100 tokens left, anew at 2026-03-02 00:00 Europe/Berlin";
        assert_eq!(left(&limit), said);
        (limit.limit_usd, limit.left_usd, limit.starts_anew) = (None, None, None);
        assert_eq!(left(&limit), "butler's day: 0 of 100 tokens left");
    }
}
