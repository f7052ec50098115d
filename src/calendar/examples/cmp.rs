use jiff::{Timestamp, tz::TimeZone};
fn main() {
    let text = std::fs::read_to_string("/tmp/hc-cases.jsonl").unwrap();
    let mut bad = 0;
    for (n, line) in text.lines().enumerate() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let at = |k: &str| case[k].as_str().unwrap().parse::<Timestamp>().unwrap();
        let w = calendar::Window::new(at("from"), at("to")).unwrap();
        let o = calendar::Object::read(case["ics"].as_str().unwrap().as_bytes());
        let seen = o.and_then(|o| o.instances(w, &TimeZone::UTC));
        let want: Vec<(String, Option<String>)> = serde_json::from_value(case["instances"].clone()).unwrap();
        let show = |w: &calendar::When| match w { calendar::When::Date(d) => d.to_string(), w => w.instant(&TimeZone::UTC).unwrap().to_string() };
        match seen {
            Ok(seen) => {
                let mut got: Vec<(String, Option<String>)> = seen.iter().map(|i| (show(&i.start), Some(show(&i.end)))).collect();
                got.sort(); let mut want = want; want.sort();
                for (g,w) in got.iter_mut().zip(&want) { if w.1.is_none() && g.0==w.0 { g.1=None } }
 if got != want {
                    bad += 1;
                    let only = |a: &Vec<(String,Option<String>)>, b: &Vec<(String,Option<String>)>| a.iter().filter(|x| !b.contains(x)).take(4).cloned().collect::<Vec<_>>();
                    println!("{n} {} {}..{}\n{}\n ours only {:?}\n theirs only {:?}\n", case["zone"], case["from"], case["to"], case["ics"].as_str().unwrap().lines().filter(|l| l.contains("DT") || l.contains("E-ID") || l.contains("RULE")|| l.contains("DATE")|| l.contains("DUR")).collect::<Vec<_>>().join("\n"), only(&got, &want), only(&want, &got));
                }
            }
            Err(e) => { bad += 1; println!("{n} ERR {e}\n{}", case["ics"]) }
        }
    }
    println!("bad {bad}");
}
