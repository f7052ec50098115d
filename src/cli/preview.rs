//! `butlerd trigger --dry-run`

use super::args::TriggerArgs;
use super::out::{Out, Tone, block, one_line};
use super::problem::FAILED;
use super::{Caller, Outcome};
use admin::ApiClient;
use sessions::Preview;
use sessions::budget::LimitLeft;

pub async fn run(caller: &Caller, args: TriggerArgs) -> Outcome {
    let call = caller.client.quick()?;
    let preview = call.trigger_preview(args.butler, args.prompt, args.context).await.map_err(caller.failed())?;
    match caller.out.json {
        true => caller.out.value(&preview),
        false => show(caller.out, &preview),
    }
    Ok(if preview.refusal.is_some() { FAILED } else { 0 })
}

fn show(out: Out, preview: &Preview) {
    for (name, value) in fields(preview) {
        out.line(&format!("{}  {value}", out.paint(Tone::Head, &format!("{name:<11}"))));
    }
    for (name, text) in
        [("system prompt", preview.system_prompt.as_deref().unwrap_or_default()), ("user prompt", &preview.user_prompt)]
    {
        out.line(&format!("\n{}\n{}", out.paint(Tone::Head, name), block(text)));
    }
    out.line("");
    match &preview.refusal {
        None => out.line("Nothing was started."),
        Some(refusal) => {
            out.line(&format!("{} {}", out.paint(Tone::Bad, "It would be refused:"), one_line(&refusal.message, 1000)));
        }
    }
}

fn fields(p: &Preview) -> Vec<(&'static str, String)> {
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => one_line(&names.join(", "), 4000),
    };
    let program = p.program.as_ref().map_or_else(|| "unknown".to_owned(), |path| path.display().to_string());
    let mut found = vec![
        ("butler", p.butler.clone()),
        ("runtime", format!("{}, {program}", p.runtime)),
        ("model", p.model.clone().unwrap_or_else(|| "the program's own default".to_owned())),
        ("tools", list(&p.tools)),
    ];
    if !p.built_in_tools.is_empty() {
        found.push(("built in", list(&p.built_in_tools)));
    }
    found.push(("environment", list(&p.environment)));
    found.push((
        "bounds",
        format!("{} model calls, {} tool calls, {}", p.max_turns, p.max_tool_calls, p.session_timeout),
    ));
    found.extend(p.limits.iter().map(|limit| ("limit", left(limit))));
    let bound = p.price_bound.usd.map_or_else(String::new, |usd| format!("at most {usd}: "));
    found.push(("price", format!("{bound}{}", p.price_bound.meaning)));
    found
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
