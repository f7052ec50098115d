//! The council's pages: the stages side by side, who dissented, and who said what, which is told after the vote.

use serde_json::json;
use testkit::model::ScriptedModel;

use crate::support::council::{JUDGED, chairman, with_council};
use crate::support::model;
use crate::support::pages::Page;

/// A member that answers this, and as a judge puts the answer first that begins with `first`.
async fn member_for(answer: &str, first: &str) -> ScriptedModel {
    let when = format!(r#"(?s)"Response ([A-Z])":\s*"{first}"#);
    model(json!([
        {"when": when, "steps": [{"say": "Response {{match.1}} is <i>sound</i>.\n\nFINAL RANKING:\n1. Response {{match.1}}"}]},
        {"when": JUDGED, "steps": [{"say": "I can't say."}]},
        {"when": ".", "steps": [{"say": answer}]},
    ]))
    .await
}

/// What stands between two marks.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let begun = page.split_once(from).unwrap_or_else(|| panic!("no {from} in {page}")).1;
    begun.split_once(to).map_or(begun, |(found, _)| found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_shows_its_stages_side_by_side_who_dissented_and_who_said_what() {
    // Each is put first once, so that the first member leads; cleo wanted bob.
    let (ada, bob, cleo) = (
        member_for("Rent <b>now</b>.", "Wait").await,
        member_for("Buy.", "Rent").await,
        member_for("Wait.", "Buy").await,
    );
    let own = chairman("Rent for now.", "?").await;
    let members = [("ada", "model-a", &ada), ("bob", "model-b", &bob), ("cleo", "model-c", &cleo)];
    let household = with_council(&own, &members, "rounds = 1\n");
    let daemon = household.start().await;
    assert_eq!(household.asks_council("Should we rent or buy?")["output"], "Rent for now.");
    let question = daemon.newest_question().await;
    let id = question["id"].as_str().unwrap_or_else(|| panic!("{question}"));
    let page = Page::of(&daemon).await;
    let list = page.get("/council").await;
    assert!(list.contains(&format!("/council/{id}")) && list.contains("answered by the council"), "{list}");

    let shown = page.get(&format!("/council/{id}")).await;
    // The answers, each on a card beside the others, and none of them as markup.
    let answers = between(&shown, "What each member answered", "What each member said of the others");
    assert!(answers.contains("<div class=\"side\">"), "{answers}");
    assert_eq!(answers.matches("<section class=\"card\">").count(), 3, "{answers}");
    for (member, model, said) in
        [("ada", "model-a", "Rent &lt;b&gt;now&lt;/b&gt;."), ("bob", "model-b", "Buy."), ("cleo", "model-c", "Wait.")]
    {
        let card = between(answers, &format!("<h3>{member}</h3>"), "</section>");
        assert!(card.contains(model) && card.contains(said) && card.contains("/sessions/"), "{card}");
    }
    // The judgements, with who stood behind the letters.
    let judged = between(&shown, "What each member said of the others", "The chairman's answer");
    assert_eq!(judged.matches("<section class=\"card\">").count(), 3, "{judged}");
    for step in question["steps"].as_array().unwrap().iter().filter(|step| step["stage"] == "judge") {
        let judge = step["member"].as_str().unwrap();
        let card = between(judged, &format!("<h3>{judge}</h3>"), "</section>");
        for (letter, member) in step["letters"].as_object().unwrap() {
            assert!(card.contains(&format!("{letter} was {}", member.as_str().unwrap())), "{card}");
        }
        assert!(card.contains("It did not know that ") && !card.contains("<i>sound"), "{card}");
        assert!(card.contains(&format!("<ol><li>{}</li></ol>", step["ranking"][0].as_str().unwrap())), "{card}");
    }
    let dissent = between(&shown, "<h2>Dissent</h2>", "<h2>");
    assert!(dissent.contains("<strong>cleo</strong> put <strong>bob</strong> first, not ada."), "{dissent}");
    assert_eq!(dissent.matches("<li>").count(), 1, "{dissent}");
    let ranking = between(&shown, "<h2>Ranking</h2>", "<h2>");
    let places: Vec<usize> = ["ada", "bob", "cleo"].iter().filter_map(|name| ranking.find(name)).collect();
    assert!(places.len() == 3 && places.is_sorted(), "{ranking}");
    assert!(between(&shown, "<h2>Answer</h2>", "<h2>").contains("Rent for now."), "{shown}");
    assert_eq!(page.status("/council/00000000-0000-7000-8000-000000000000").await, 404);
}
