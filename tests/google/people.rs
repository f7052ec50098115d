//! What Google's contacts do, as far as the description of people.v1 doesn't say it: versions, sync tokens, pages, and that it
//! alone gives names.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};

use super::{Answer, Call, Service, refused};

/// More than so many are another page.
const PAGE: usize = 10;
/// A contact has one of these at the most.
const SINGLE: [&str; 4] = ["biographies", "birthdays", "genders", "names"];

/// The contacts of an account.
#[derive(Default)]
pub struct People(Mutex<State>);

#[derive(Default)]
struct State {
    /// By number: what it is, and as of which change. Whoever is deleted is null.
    all: BTreeMap<usize, (u64, Value)>,
    changes: u64,
    /// Sync tokens of before are not known any more.
    forgotten: u64,
    last: usize,
}

impl People {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("the contacts")
    }

    /// The owner makes a contact. Its name, as `people/c1`.
    pub fn add(&self, person: Value) -> String {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.put(number, person);
        format!("people/c{number}")
    }

    /// The owner changes a contact.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let number = number(name).expect("a number");
        let mut person = state.all[&number].1.clone();
        change(&mut person);
        state.put(number, person);
    }

    /// The owner deletes a contact.
    pub fn delete(&self, name: &str) {
        self.state().put(number(name).expect("a number"), Value::Null);
    }

    /// A contact as it is now.
    pub fn get(&self, name: &str) -> Value {
        number(name).and_then(|number| self.state().all.get(&number).cloned()).expect("a contact").1
    }

    /// All who are there.
    pub fn all(&self) -> Vec<Value> {
        self.state().all.values().map(|(_, person)| person.clone()).filter(|person| !person.is_null()).collect()
    }

    /// Sync tokens of before are not known any more.
    pub fn forget(&self) {
        let mut state = self.state();
        state.forgotten = state.changes + 1;
        state.changes += 1;
    }
}

fn number(name: &str) -> Option<usize> {
    name.strip_prefix("people/c")?.parse().ok()
}

impl State {
    /// With a new version.
    fn put(&mut self, number: usize, mut person: Value) {
        self.changes += 1;
        if !person.is_null() {
            let etag = format!("#{}", self.changes);
            person["resourceName"] = json!(format!("people/c{number}"));
            person["etag"] = json!(format!("%{etag}"));
            person["metadata"] = json!({"objectType": "PERSON", "sources": [
                {"type": "CONTACT", "id": number.to_string(), "etag": etag, "updateTime": "2027-01-01T00:00:00Z"}]});
            for name in person["names"].as_array_mut().into_iter().flatten() {
                let parts = ["givenName", "familyName"].map(|part| name[part].as_str().unwrap_or_default().to_owned());
                name["displayName"] = json!(parts.join(" ").trim());
            }
        }
        self.all.insert(number, (self.changes, person));
    }

    fn list(&self, call: &Call) -> Answer {
        let since = match call.parameter("syncToken").map(|token| token.trim_start_matches('s').parse::<u64>()) {
            None => None,
            Some(Ok(since)) if since >= self.forgotten => Some(since),
            Some(_) => return refused(400, "EXPIRED_SYNC_TOKEN"),
        };
        let is_listed = |(_, (changed, person)): &(&usize, &(u64, Value))| match since {
            Some(since) => *changed > since,
            None => !person.is_null(),
        };
        let listed: Vec<Value> = self
            .all
            .iter()
            .filter(is_listed)
            .map(|(number, (changed, person))| match person {
                Value::Null => json!({"resourceName": format!("people/c{number}"), "etag": format!("%{changed}"),
                                      "metadata": {"deleted": true}}),
                person => masked(person, call),
            })
            .collect();
        let size = call.parameter("pageSize").and_then(|size| size.parse().ok()).unwrap_or(100).min(PAGE);
        // A page goes on with the list that it is of.
        let of = since.map_or_else(|| "all".to_owned(), |since| since.to_string());
        let from = match call.parameter("pageToken").map(|token| token.split_once('/')) {
            None => 0,
            Some(Some((list, from))) if list == of => from.parse().expect("a place"),
            Some(_) => return refused(400, "invalidPageToken"),
        };
        let to = listed.len().min(from + size);
        let mut answer = json!({"connections": listed[from..to], "totalItems": listed.len()});
        if to < listed.len() {
            answer["nextPageToken"] = json!(format!("{of}/{to}"));
        } else if call.parameter("requestSyncToken") == Some("true") {
            answer["nextSyncToken"] = json!(format!("s{}", self.changes));
        }
        (200, answer)
    }

    fn there(&self, name: &str) -> Option<(usize, &Value)> {
        let number = number(name)?;
        self.all.get(&number).map(|(_, person)| (number, person)).filter(|(_, person)| !person.is_null())
    }

    fn batch(&self, call: &Call) -> Answer {
        let one = |name: &String| match self.there(name) {
            Some((_, person)) => json!({"requestedResourceName": name, "httpStatusCode": 200, "status": {},
                                        "person": masked(person, call)}),
            None => json!({"requestedResourceName": name, "httpStatusCode": 404, "status": {"code": 5}}),
        };
        let names = call.parameters.get("resourceNames").cloned().unwrap_or_default();
        (200, json!({"responses": names.iter().map(one).collect::<Vec<_>>()}))
    }

    fn update(&mut self, call: &Call) -> Answer {
        let Some((number, person)) = self.there(call.parameter("resourceName").unwrap_or_default()) else {
            return refused(404, "notFound");
        };
        let source = &call.body["metadata"]["sources"][0];
        if source["type"] != "CONTACT" {
            return refused(400, "invalidArgument");
        }
        if source["etag"] != person["metadata"]["sources"][0]["etag"] {
            return refused(400, "failedPrecondition");
        }
        let mut person = person.clone();
        for field in call.parameter("updatePersonFields").unwrap_or_default().split(',') {
            person[field] = call.body[field].clone();
        }
        self.keep(number, person, call)
    }

    fn keep(&mut self, number: usize, person: Value, call: &Call) -> Answer {
        let several = |field: &&str| person[*field].as_array().is_some_and(|all| all.len() > 1);
        if SINGLE.iter().any(several) {
            return refused(400, "invalidArgument");
        }
        self.put(number, person);
        (200, masked(&self.all[&number].1, call))
    }
}

/// What was asked for.
fn masked(person: &Value, call: &Call) -> Value {
    let mask: Vec<&str> = call.parameter("personFields").unwrap_or_default().split(',').collect();
    let mut person = person.clone();
    if let Some(fields) = person.as_object_mut() {
        fields.retain(|field, _| ["resourceName", "etag"].contains(&field.as_str()) || mask.contains(&field.as_str()));
    }
    person
}

impl Service for People {
    fn answer(&self, call: &Call) -> Answer {
        let mut state = self.state();
        let named = call.parameter("resourceName").unwrap_or_default().to_owned();
        match call.id.as_str() {
            "people.people.connections.list" => state.list(call),
            "people.people.getBatchGet" => state.batch(call),
            "people.people.get" => match state.there(&named) {
                Some((_, person)) => (200, masked(person, call)),
                None => refused(404, "notFound"),
            },
            "people.people.createContact" => {
                state.last += 1;
                let number = state.last;
                state.keep(number, call.body.clone(), call)
            }
            "people.people.updateContact" => state.update(call),
            "people.people.deleteContact" => match state.there(&named).map(|(number, _)| number) {
                Some(number) => {
                    state.put(number, Value::Null);
                    (200, json!({}))
                }
                None => refused(404, "notFound"),
            },
            other => panic!("{other} is not built here"),
        }
    }
}
