//! Schedules, their jobs and skills; what waits for a person.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ButlerContents, finding, in_file, key};
use approvals::Settings;
use config::{DispatchMode, Finding, Place};
use outbox::MESSENGER;
use schedule::is_built_in;
use tools::sql;

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    let mut found = of_jobs(known);
    found.extend(gates(known));
    match known.butler.name.as_str() == MESSENGER {
        true => found.extend(idle_hands(known)),
        false => found.extend(companions(known)),
    }
    found
}

/// The files in `jobs/`, and the schedules that name them.
fn of_jobs(known: &ButlerContents<'_>) -> Vec<Finding> {
    let butler = known.butler;
    let of_module = |job: &str| {
        let mut own = known.modules.into_iter().flatten().flat_map(|m| m.schedules());
        known.modules.is_none() || own.any(|schedule| schedule.job.contains(&job))
    };
    let dir = butler.dir.join("jobs");
    let (jobs, mut found) = match sql::check_jobs(&dir) {
        Ok(jobs) => (jobs, Vec::new()),
        Err(wrong) => (BTreeMap::new(), wrong.into_iter().map(in_file).collect()),
    };
    for (i, entry) in butler.schedules.iter().enumerate() {
        let Some(job) = entry.job_name.as_deref() else { continue };
        let i = i.to_string();
        let at = |last: &str| key(&["butler", "schedule", &i, last]);
        let file = format!("jobs/{job}.sql");
        let mut given = entry.job_args.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        if !is_built_in(job) && !of_module(job) && !butler.dir.join(&file).is_file() {
            let problem = format!("found \"{job}\", and there is no {file}");
            let expected = "a built-in job, or the name of a file in the butler's `jobs/` without `.sql`";
            found.push(finding(at("job_name"), problem, expected));
        } else if let Some(arguments) = jobs.get(job)
            && let Err(problem) = arguments.validate(&mut given)
        {
            found.push(finding(at("job_args"), problem.to_string(), format!("what {file} declares as args")));
        }
    }
    found
}

/// Each prompt on a timetable has a skill that says how its work is done.
fn companions(known: &ButlerContents<'_>) -> Vec<Finding> {
    let butler = known.butler;
    let prompts = butler.schedules.iter().enumerate().filter(|(_, s)| s.dispatch_mode == DispatchMode::Prompt);
    let alone = prompts.filter(|(_, s)| !butler.skills.iter().any(|skill| skill.name == companion(&s.name)));
    let told = alone.map(|(i, entry)| {
        let problem = format!("found \"{}\", and no skill says how that is done", entry.name);
        let expected = format!(
            "skills/{}/SKILL.md with its steps, and what to do when there is nothing to tell",
            companion(&entry.name)
        );
        finding(key(&["butler", "schedule", &i.to_string(), "name"]), problem, expected)
    });
    told.collect()
}

/// What a schedule's skill is called: names of skills have `-` between words.
fn companion(schedule: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let dashed: String = schedule.chars().map(plain).collect();
    dashed.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// The messenger delivers, and does nothing of its own accord.
fn idle_hands(known: &ButlerContents<'_>) -> Vec<Finding> {
    let butler = known.butler;
    let schedules = butler.schedules.iter().enumerate().map(|(i, entry)| {
        let problem = format!("found \"{}\" in the messenger", entry.name);
        finding(key(&["butler", "schedule", &i.to_string(), "name"]), problem, "schedules in other butlers only")
    });
    let own = butler.skills.iter().filter(|skill| !butler.shared_skills.contains(&skill.name));
    let skills = own.map(|skill| {
        let place = Place::Line(skill.dir.join(config::skills::SKILL_FILE), 1);
        finding(
            place,
            "found a skill of the messenger's own",
            "skills in other butlers; it shares those of `shared/` only",
        )
    });
    schedules.chain(skills).collect()
}

/// Tools that wait for a person, and are not there.
fn gates(known: &ButlerContents<'_>) -> Vec<Finding> {
    let butler = known.butler;
    let (Ok(settings), Some(tools)) = (Settings::read(butler.modules.get("approvals")), &known.tools) else {
        return Vec::new();
    };
    // Files in `tools/` are tools where the roster's own module loads them.
    let loads = butler.modules.contains_key(butler.name.as_str());
    let there = |tool: &str| tools.has(tool) && (loads || !tools.own.contains(tool));
    let missing = settings.gated_tools.keys().filter(|tool| settings.enabled && !there(tool));
    let told = missing.map(|tool| {
        let problem = format!("`{}` has no tool of this name", butler.name);
        let expected = format!("one of its tools, which `butlerd tool list {}` shows", butler.name);
        finding(key(&["modules", "approvals", "gated_tools", tool]), problem, expected)
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_and_its_skill_are_called_alike() {
        for (schedule, skill) in [
            ("weekly-review", "weekly-review"),
            ("weekly_review", "weekly-review"),
            ("Weekly Review!", "weekly-review"),
        ] {
            assert_eq!(companion(schedule), skill);
        }
    }
}
