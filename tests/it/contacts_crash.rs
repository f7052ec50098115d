//! `kill -9` between every step of an address book's sync and the next, while cards come, change and go: both sides are
//! equal afterwards, nobody is there twice, and nobody who went comes again.

use serde_json::json;

use crate::contacts::{Radicale, add, card, people, sync, with_book};
use crate::support::tally::died;
use crate::support::{Daemon, Household};

/// Where the daemon dies, and at which passage. A run writes what came, what it deleted, the card that it changes before and
/// behind the server's answer and as the server has it then, and the same of the card that it makes.
const POINTS: [&str; 19] = [
    "contacts.writing",
    "contacts.writing:4",
    "contacts.written",
    "contacts.written:2",
    "contacts.written:3",
    "contacts.written:7",
    "contacts.cursor",
    "contacts.cursor:2",
    "contacts.comparing",
    "contacts.comparing:3",
    "contacts.compared",
    "contacts.compared:2",
    "contacts.added",
    "contacts.sending",
    "contacts.sent",
    "contacts.updating",
    "contacts.updated",
    "contacts.deleting",
    "contacts.deleted",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_any_two_steps_of_a_sync() {
    let Some(radicale) = Radicale::start("contacts_crash::killed_between_any_two_steps_of_a_sync").await else {
        return;
    };
    let household = with_book(Household::new(), &radicale);
    let put = async |name: &str| {
        let card = card(name, name, &[&format!("EMAIL:{name}@example.org")]);
        radicale.put(name, &card).await;
    };
    put("kept").await;
    let mut daemon = household.start().await;
    sync(&daemon.mcp("general")).await;
    for (n, point) in POINTS.into_iter().enumerate() {
        let (house, gone, book) = (format!("house{n:02}"), format!("gone{n:02}"), format!("book{n:02}"));
        put(&gone).await;
        sync(&daemon.mcp("general")).await;
        // One card is to come from here, one changes, and one goes: as if the house had taken it back, which no tool does.
        add(&daemon, &house, "email", &format!("{house}@example.org")).await;
        add(&daemon, "kept", "phone", &format!("+4930{n:04}")).await;
        let sql = "UPDATE shared.contact_cards SET ours = NULL, revision = revision + 1 WHERE uid = $1";
        assert_eq!(household.owner().await.execute(sql, &[&gone]).await.expect("the card"), 1, "{point}");
        daemon.kill();
        put(&book).await;
        let mut dying = Daemon::spawn(&Household::again(&household, "BUTLERD_CRASH_POINT", point));
        died(&mut dying, point).await;
        drop(dying);
        daemon = household.start().await;
        let ran = sync(&daemon.mcp("general")).await;
        let all = 1 + 2 * (n + 1);
        assert_eq!((&ran["cards"], &ran["linked"]), (&json!(all), &json!(all)), "{point}: {ran}");
        assert_eq!((&ran["to_push"], &ran["conflicts"]), (&json!(0), &json!(0)), "{point}: {ran}");
        assert_eq!(ran["archived"], json!(n + 1), "{point}: {ran}");
        let (cards, people) = (radicale.all().await, people(&daemon).await);
        assert_eq!((cards.len(), people.len()), (all, all + n + 1), "{point}: {cards:?} {people:?}");
        let each = |n: usize| [format!("book{n:02}@"), format!("house{n:02}@"), format!("+4930{n:04}")];
        for word in (0..=n).flat_map(each) {
            let there: usize = cards.iter().map(|(_, card)| card.matches(&word).count()).sum();
            let here = people.iter().filter(|line| line.contains(&word)).count();
            assert_eq!((there, here), (1, 1), "{point}: {word} {cards:?} {people:?}");
        }
        let doubled = "SELECT count(*) FROM (SELECT name FROM shared.contacts GROUP BY name HAVING count(*) > 1) d";
        let doubled = household.owner().await.query_one(doubled, &[]).await.expect("a count");
        assert_eq!(doubled.get::<_, i64>(0), 0, "{point}");
    }
}
