use super::*;
use crate::tests::processor_time;

/// Texts, and what is the sender's own in each; `OLD` words are others'.
const OWN: &[(&str, &str)] = &[
    ("Hello\n\nyou", "Hello\n\nyou"),
    ("Hello\n\n> OLD\n> OLD", "Hello"),
    ("> OLD\nYes.\n> OLD\nNo.", "Yes.\n\nNo."),
    ("Yes.\n\nOn Mon, 3 May 2024 at 10:00, Ada <ada@example.org> wrote:\n> OLD", "Yes."),
    ("Yes.\n\nOn Mon, 3 May 2024 at 10:00, Ada Lovelace <ada@example.org>\nwrote:\n\n> OLD", "Yes."),
    ("Yes.\n\nOn Monday, 3 May 2024 at 10:00\nAda Lovelace <ada@example.org> wrote:\n> OLD", "Yes."),
    ("Yes.\n\nAda Lovelace wrote on 3 May:\n> OLD", "Yes."),
    ("Ja.\n\nAm Mo., 3. Mai 2024 um 10:00 Uhr schrieb Ada <ada@example.org>:\n> OLD", "Ja."),
    ("Ja.\n\nAm 03.05.24 um 10:00 schrieb Ada Lovelace:\n> OLD", "Ja."),
    ("Ja.\n\nAm 3. Mai 2024 hat Ada geschrieben:\n> OLD", "Ja."),
    ("Oui.\n\nLe lun. 3 mai 2024 à 10:00, Ada <ada@example.org> a écrit\u{a0}:\n> OLD", "Oui."),
    ("Sí.\n\nEl lun, 3 may 2024 a las 10:00, Ada (<ada@example.org>) escribió:\n> OLD", "Sí."),
    ("Sì.\n\nIl giorno lun 3 mag 2024 alle ore 10:00 Ada <ada@example.org> ha scritto:\n> OLD", "Sì."),
    ("Ja.\n\nOp ma 3 mei 2024 om 10:00 schreef Ada <ada@example.org>:\n> OLD", "Ja."),
    ("Sim.\n\nEm seg., 3 de mai. de 2024 às 10:00, Ada <ada@example.org> escreveu:\n> OLD", "Sim."),
    ("Tak.\n\npon., 3 maj 2024 o 10:00 Ada <ada@example.org> napisał(a):\n> OLD", "Tak."),
    ("Tak.\n\nW dniu 3.05.2024 o 10:00, Ada pisze:\n> OLD", "Tak."),
    ("Ja.\n\nDen mån 3 maj 2024 kl 10:00 skrev Ada <ada@example.org>:\n> OLD", "Ja."),
    ("Ja.\n\nDen man. 3. maj 2024 kl. 10.00 skrev Ada <ada@example.org>:\n> OLD", "Ja."),
    ("Kyllä.\n\nma 3. toukok. 2024 klo 10.00 Ada (ada@example.org) kirjoitti:\n> OLD", "Kyllä."),
    ("Ano.\n\npo 3. 5. 2024 v 10:00 odesílatel Ada <ada@example.org> napsal:\n> OLD", "Ano."),
    ("Evet.\n\nAda <ada@example.org>, 3 May 2024 Pzt, 10:00 tarihinde şunu yazdı:\n> OLD", "Evet."),
    ("Да.\n\nпн, 3 мая 2024 г. в 10:00, Ада <ada@example.org>:\n> OLD", "Да."),
    ("Да.\n\n03.05.2024 10:00, Ада пишет:\n> OLD", "Да."),
    ("はい。\n\n2024年5月3日(金) 10:00 Ada <ada@example.org>:\n> OLD", "はい。"),
    ("好。\n\nAda <ada@example.org> 于2024年5月3日周五 10:00写道：\n> OLD", "好。"),
    // No line is marked.
    ("Yes.\n\nOn 3 May 2024, at 10:00, Ada <ada@example.org> wrote:\n\nOLD\nOLD", "Yes."),
    ("Yes.\n\nOn 3 May 2024, at 10:00, Ada\n<ada@example.org> wrote:\n\nOLD\n> OLD\nOLD", "Yes."),
    // Blocks of headers.
    ("Yes.\n\nFrom: Ada <ada@example.org>\nSent: Monday\nTo: Bob\nSubject: Hi\n\nOLD\n\nOLD", "Yes."),
    ("Yes.\n\n________________________________\nFrom: Ada\nSent: Monday\nTo: Bob\nSubject: Hi\n\nOLD", "Yes."),
    ("Yes.\n\n-----Original Message-----\nFrom: Ada\nOLD", "Yes."),
    ("Ja.\n\nVon: Ada\nGesendet: Montag\nAn: Bob; Eve;\n Mallory\nCc: Trent\nBetreff: Hi\n\nOLD", "Ja."),
    ("Ja.\n\n*Von:* Ada <ada@example.org>\n*Gesendet:* Montag\n*An:* Bob\n\nOLD", "Ja."),
    ("Oui.\n\nDe : Ada\nEnvoyé : lundi\nÀ : Bob\nObjet : Salut\n\nOLD", "Oui."),
    ("Sí.\n\nDe: Ada\nEnviado el: lunes\nPara: Bob\nAsunto: Hola\n\nOLD", "Sí."),
    ("はい\n\n差出人: Ada\n送信日時: 2024\n宛先: Bob\n件名: Hi\n\nOLD", "はい"),
    ("好\n\n发件人：Ada\n发送时间：2024\n收件人：Bob\n主题：Hi\n\nOLD", "好"),
    ("Да\n\nОт: Ада\nДата: 3 мая\nКому: Боб\nТема: Привет\n\nOLD", "Да"),
    ("Yes.\n\n> From: Ada\n> Sent: Monday\n> OLD", "Yes."),
    // Letters that are passed on.
    ("See below.\n\n---------- Forwarded message ---------\nFrom: Ada\nDate: Monday\n\nOLD", "See below."),
    ("Begin forwarded message:\n\nFrom: Ada\n\nOLD", ""),
    ("Siehe unten.\n\n-------- Weitergeleitete Nachricht --------\nBetreff: OLD\nOLD", "Siehe unten."),
    ("Anfang der weitergeleiteten Nachricht:\n\n> Von: OLD\n> OLD", ""),
    ("Vu.\n\n-------- Message transféré --------\nOLD", "Vu."),
    ("Done\n\n##- Please type your reply above this line -##\nOLD", "Done"),
    // A person's own words.
    ("From: this sentence is mine.\nSo is this.", "From: this sentence is mine.\nSo is this."),
    ("Book a train.\nFrom: Berlin\nTo: Paris\nDate: 3 May", "Book a train.\nFrom: Berlin\nTo: Paris\nDate: 3 May"),
    ("What Ada wrote: nothing.", "What Ada wrote: nothing."),
    ("He wrote:\nnothing", "He wrote:\nnothing"),
    ("The original message is lost.", "The original message is lost."),
    ("-----\nA table\n-----\nmore", "-----\nA table\n-----\nmore"),
    ("3 > 2 and a -> b", "3 > 2 and a -> b"),
    // A quoted line that was wrapped without a mark, and an answer.
    (WRAPPED, "Mine."),
];

const WRAPPED: &str =
    "> OLD and this line is so long that the program which sent it broke it in\nOLD two\n> OLD\n\nMine.\n> OLD";

#[test]
fn the_senders_words_are_told_from_others() {
    let mut wrong = Vec::new();
    for (text, own) in OWN {
        let words = split(text);
        let lost = text.matches("OLD").count() != words.quoted.matches("OLD").count();
        if words.new != *own || lost || !words.signature.is_empty() {
            wrong.push(format!("{text}\n=> {words:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn signatures_are_apart() {
    for (text, new, signature) in [
        ("Yes.\n\n-- \nAda\nLondon", "Yes.", "-- \nAda\nLondon".trim_end()),
        ("Yes.\n--\nAda", "Yes.", "--\nAda"),
        ("Yes.\n\n-- \nAda\n\n> OLD\nMore.", "Yes.\n\nMore.", "--\nAda"),
        ("Yes.\n\nSent from my iPhone", "Yes.", "Sent from my iPhone"),
        ("Yes.\n\nSent from my iPhone\n\nOn 3 May 2024 Ada wrote:\n> OLD", "Yes.", "Sent from my iPhone"),
        ("Ja.\n\nVon meinem iPhone gesendet", "Ja.", "Von meinem iPhone gesendet"),
        ("Oui.\n\nEnvoyé de mon iPhone", "Oui.", "Envoyé de mon iPhone"),
        ("Evet.\n\niPhone'umdan gönderildi", "Evet.", "iPhone'umdan gönderildi"),
        ("はい\n\niPhoneから送信", "はい", "iPhoneから送信"),
        ("Ok\nGet Outlook for iOS (https://aka.ms/o0ukef)", "Ok", "Get Outlook for iOS (https://aka.ms/o0ukef)"),
        ("Sent from my iPhone is what it says.\nReally.", "Sent from my iPhone is what it says.\nReally.", ""),
        ("Von meinem Konto bitte 5 Euro an Ada.", "Von meinem Konto bitte 5 Euro an Ada.", ""),
        ("a\n--\nb\n-- \nAda", "a\n--\nb", "--\nAda"),
    ] {
        let words = split(text);
        let signature = signature.replace("-- \n", "--\n");
        assert_eq!((words.new.as_str(), words.signature.as_str()), (new, signature.as_str()), "{text}");
    }
}

#[test]
fn what_html_quotes_is_told_as_well() {
    let html = "<div>Yes, <b>do it</b>.</div><div class=gmail_quote><div class=gmail_attr>On Mon, 3 May 2024 Ada wrote:<br>\
                </div><blockquote>OLD</blockquote></div>";
    let words = split(&crate::html::shown(html, 1000).text);
    assert_eq!(
        (words.new.as_str(), words.quoted.as_str()),
        ("Yes, do it.", "> On Mon, 3 May 2024 Ada wrote:\n>\n> OLD")
    );
    let html = "<p>Yes.</p><div style='border-top:solid #E1E1E1 1.0pt'><p><b>From:</b> Ada &lt;ada@example.org&gt;<br>\
                <b>Sent:</b> Monday<br><b>To:</b> Bob<br><b>Subject:</b> Hi</p></div><p>OLD</p>";
    let words = split(&crate::html::shown(html, 1000).text);
    assert_eq!(words.new, "Yes.");
    assert!(words.quoted.ends_with("OLD"), "{words:?}");
}

#[test]
fn long_texts_end_in_time() {
    for line in [
        "> x\n",
        ">\n",
        ">>>>>>>>>>>>>>>>>>>>>>>>",
        "On 3 May 2024 at 10:00 Ada\n",
        "wrote:\n> x\n",
        "On 1 x wrote\n",
        "On 1 x <a@b.c> wrote:\n> x\ny\n",
        "From: a@b.c\n",
        "From:\n\n\n",
        "_____\n",
        "-- \n",
        "--\n",
        "Sent from my iPhone\n",
        "a@",
        "\n",
        "-",
        "am 1",
    ] {
        let text = line.repeat(if line.starts_with('>') { 1_000_000 } else { 200_000 } / line.len());
        let start = processor_time();
        let words = split(&text);
        let took = processor_time() - start;
        assert!(took.as_secs() < 15, "{line:?}: {took:?}");
        assert!(words.new.len() + words.quoted.len() + words.signature.len() <= 2 * text.len());
    }
}
