//! What mail programs write around others' words, in the languages that they speak.

/// Longer lines are none of these, in bytes.
const LONGEST: usize = 400;
/// The longest line in which a device names itself, in bytes: its address may stand behind.
const LONGEST_DEVICE: usize = 160;
/// The longest name of a header, in bytes.
const LONGEST_HEADER: usize = 40;

/// What a line of a block of headers says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// From whom; with an address or without.
    From {
        address: bool,
    },
    Sent,
    To,
    Subject,
    Other,
}

const FROM: &str = "from|von|de|da|van|från|fra|lähettäjä|od|odesílatel|kimden|gönderen|от|от кого|від|差出人|送信者|发件人\
    |寄件者|寄件人\
    |보낸 사람|feladó|από|expéditeur|mittente|afzender|remetente|remitente|absender";
const SENT: &str = "sent|date|gesendet|gesendet am|datum|envoyé|envoyé le|enviado|enviado el|enviada|enviada em\
    |enviado em|fecha\
    |inviato|data|verzonden|wysłano|wysłane|skickat|sendt|dato|lähetetty|päivämäärä|odesláno|odoslané|gönderildi|tarih\
    |gönderme tarihi|отправлено|дата|送信日時|日付|日時|发送时间|发送日期|日期|寄件日期|傳送日期|보낸 날짜|날짜|elküldve|dátum|sent at";
const TO: &str = "to|an|à|a|para|aan|do|komu|till|til|vastaanottaja|kime|alıcı|кому|кому|宛先|收件人|收件者|받는 사람|címzett|προς\
    |destinataire|destinatario|empfänger|pour";
const SUBJECT: &str = "subject|betreff|objet|sujet|asunto|oggetto|onderwerp|assunto|temat|ämne|emne|aihe|předmět\
    |predmet|konu|тема\
    |件名|主题|主旨|主題|제목|tárgy|θέμα";
const OTHER: &str = "cc|bcc|kopie|copie|kopia|kopi|kopio|bilgi|копия|抄送|副本|reply-to|antwort an|importance\
    |wichtigkeit|attachments\
    |anlagen|organization|when|where|wann|wo";

/// A line that stands alone, between dashes or before a colon.
const PASSED_ON: &str = "forwarded message|forwarded email|original message|original appointment\
    |begin forwarded message\
    |reply message|weitergeleitete nachricht|weitergeleitete mail|anfang der weitergeleiteten nachricht\
    |anfang der weitergeleiteten e-mail\
    |ursprüngliche nachricht|ursprüngliche mail|original-nachricht|originalnachricht|ursprungsnachricht|originaltermin\
    |message transféré|message transmis|début du message transféré|début du message réexpédié|message d'origine\
    |message d’origine|message original\
    |mensaje reenviado|inicio del mensaje reenviado|comienzo del mensaje reenviado|mensaje original\
    |messaggio inoltrato|inizio messaggio inoltrato|messaggio originale\
    |doorgestuurd bericht|begin doorgestuurd bericht|oorspronkelijk bericht|origineel bericht\
    |mensagem encaminhada|mensagem reencaminhada|início da mensagem encaminhada|início da mensagem reencaminhada\
    |mensagem original\
    |wiadomość przekazana dalej|przekazana wiadomość|treść przekazanej wiadomości\
    |początek przekazywanej wiadomości|oryginalna wiadomość\
    |wiadomość oryginalna|wiadomość oryginalna|vidarebefordrat meddelande|vidarebefordrat brev|vidarebefordrat mejl\
    |ursprungligt meddelande|originalmeddelande|börja på vidarebefordrat meddelande|videresendt meddelelse\
    |videresendt besked\
    |start på videresendt besked|oprindelig meddelelse|videresendt melding|videresendt e-post|opprinnelig melding\
    |edelleenlähetetty viesti|välitetty viesti|alkuperäinen viesti|přeposlaná zpráva|původní zpráva\
    |iletilen ileti|yönlendirilen ileti|iletilmiş ileti|özgün ileti|orijinal mesaj|ilk ileti\
    |пересылаемое сообщение|перенаправленное сообщение|переадресованное сообщение\
    |начало переадресованного сообщения|исходное сообщение\
    |転送メッセージ|転送されたメッセージ|元のメッセージ|転送メール|转发的邮件|转发邮件信息|转发邮件|原始邮件|以下是转发的邮件\
    |轉寄的郵件|轉寄郵件|原始郵件|전달된 메시지|원본 메시지";

const WROTE: &str = "wrote|writes|schrieb|geschrieben|a écrit|écrivait|escribió|ha scritto|scrive|schreef\
    |geschreven|escreveu|napisał\
    |pisze|skrev|kirjoitti|napsal|yazdı|написал|пишет|писал|пише|写道|寫道|書きました|のメール|작성|írta|a scris|έγραψε|napísal\
    |har skrevet|viết|напиша";

const BEGINS: &str = "on |am |le |el |il |op |em |no dia |w dniu |dnia |den |dne |ma |в |за |at |pe |za |ti |ke \
    |to |fr |pt |mon|tue\
    |wed|thu|fri|sat|sun|pon|wt|śr|czw|lun|mar|mer|jeu|ven|sam|dim|пн|вт|ср|чт|пт|сб|вс|po |út |st |čt |pá |so \
    |ne |quoting |zitat \
    |from |von |de |em ";

const DEVICE: &str = "sent from my |sent from outlook|sent from mail for|sent from yahoo|sent from proton\
    |sent from samsung|sent from android\
    |get outlook for|sent via the samsung|sent with proton|von meinem |gesendet von |gesendet mit |gesendet aus \
    |diese nachricht wurde von meinem\
    |holen sie sich outlook|outlook für |envoyé de mon |envoyé de mo |envoyé depuis |envoyé à partir\
    |télécharger outlook|enviado desde \
    |enviado do meu |enviado a partir |obtener outlook|obter o outlook|inviato da |inviato dal |scarica outlook\
    |verzonden vanaf |verstuurd vanaf \
    |verzonden met |verstuurd vanuit |outlook voor |wysłane z |wysłano z |pobierz outlook|skickat från \
    |hämta outlook|sendt fra |hent outlook\
    |lähetetty |hanki outlook|odesláno z |získat outlook|отправлено с |отправлено из |发自我的|發自我的|从我的|從我的|发送自|寄自|outlook を入手";
const DEVICE_ENDS: &str = "gönderildi|から送信|gesendet|에서 보냄";

fn is_one(text: &str, table: &str) -> bool {
    table.split('|').any(|one| one == text)
}

fn begins(text: &str, table: &str) -> bool {
    table.split('|').any(|one| text.starts_with(one))
}

/// In lower case, with plain spaces; `None`: too long to be a mark.
fn plain(line: &str, longest: usize) -> Option<String> {
    let line = line.trim();
    (line.len() <= longest).then(|| line.to_lowercase().replace(['\u{a0}', '\u{202f}'], " "))
}

/// What a line says if it is one of a block of headers: a name, a colon, something.
pub fn header(line: &str) -> Option<Header> {
    // In plain text, bold names stand between stars.
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || "*|".contains(c));
    let (at, colon) = line.char_indices().take(LONGEST_HEADER).find(|(_, c)| matches!(c, ':' | '：'))?;
    let name = plain(line[..at].trim_end_matches('*'), LONGEST_HEADER)?;
    let value = line[at + colon.len_utf8()..].trim_start_matches('*').trim();
    Some(match name.as_str() {
        name if is_one(name, FROM) => Header::From { address: value.contains('@') },
        name if is_one(name, SENT) => Header::Sent,
        name if is_one(name, TO) => Header::To,
        name if is_one(name, SUBJECT) => Header::Subject,
        name if is_one(name, OTHER) => Header::Other,
        _ => return None,
    })
}

/// Whether a line is nothing but strokes.
pub fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 5 && line.len() <= LONGEST && line.chars().all(|c| "_-=─—*".contains(c))
}

/// Whether a line says that a letter was passed on, or that one begins that was answered.
pub fn is_passed_on(line: &str) -> bool {
    let Some(line) = plain(line, LONGEST) else { return false };
    let strokes = |c: char| c.is_whitespace() || "-_=*─—<>#".contains(c);
    let name = line.trim_matches(strokes);
    let marked =
        line.starts_with("--") || line.starts_with("__") || line.starts_with("==") || line.ends_with([':', '：']);
    let name = name.trim_end_matches(|c: char| c == ':' || c == '：' || strokes(c));
    marked && (is_one(name, PASSED_ON) || line.starts_with("--") && name.starts_with("forwarded by "))
}

/// Whether a line asks to answer above it.
pub fn is_cut(line: &str) -> bool {
    plain(line, LONGEST).is_some_and(|line| {
        let above = [
            "reply above this line",
            "type your reply above",
            "antworten sie oberhalb dieser",
            "répondre au-dessus de cette",
        ];
        above.iter().any(|mark| line.contains(mark))
    })
}

fn has_digit(text: &str) -> bool {
    text.chars().any(|c| c.is_ascii_digit())
}

/// Whether a sentence says who wrote what follows.
pub fn attributes(sentence: &str) -> bool {
    if !sentence.trim_end().ends_with([':', '：']) {
        return false;
    }
    let Some(sentence) = plain(sentence, LONGEST) else { return false };
    let Some(said) = sentence.strip_suffix([':', '：']) else { return false };
    let wrote = WROTE.split('|').any(|verb| said.contains(verb));
    let dated = has_digit(said) || said.contains('@') || begins(said, BEGINS);
    // In some languages there is no verb: a date, a time, and an address.
    wrote && dated || has_digit(said) && said.contains('@') && said.trim_end().ends_with('>') && said.contains(':')
}

/// Whether a line may be the first of such a sentence, and is no sentence by itself.
pub fn begins_attribution(line: &str) -> bool {
    let Some(line) = plain(line, LONGEST) else { return false };
    let named = begins(&line, BEGINS) || line.starts_with(|c: char| c.is_ascii_digit()) || line.contains('@');
    named && (has_digit(&line) || line.contains('@')) && !line.ends_with(['.', '!', '?'])
}

/// Whether a device or a program names itself in a line.
pub fn is_sent_from(line: &str) -> bool {
    let Some(line) = plain(line, LONGEST_DEVICE) else { return false };
    if line.starts_with("von meinem ") {
        return line.contains("gesendet");
    }
    begins(&line, DEVICE)
        || DEVICE_ENDS.split('|').any(|end| line.trim_end_matches(['.', '。']).ends_with(end))
            && ["iphone", "ipad", "android", "samsung", "outlook", "mail"].iter().any(|device| line.contains(device))
}
