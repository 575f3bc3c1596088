//! How people write values: of parameters, of tables' fields and of signals' arguments.

use crate::consistent_hashing::Server;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use wireloom_ir::desc::{Form, ParamType, ParamValue, OTHERS};
use wireloom_ir::suggestions;

/// A server of a list, in twemproxy's form: `host:port`, `host:port:weight`, `host:port:weight
/// name`. The name represents it where keys are spread. Without a name that is `host:port`, or the
/// host alone for port 11211.
pub(crate) fn server(text: &str) -> Result<(&str, Server), String> {
    let (at, name) = match text.split_once(' ') {
        Some((at, name)) => (at, Some(name.trim())),
        None => (text, None),
    };
    let host_end = at.rfind(']').unwrap_or(0);
    let (at, weight) = match at[host_end..].match_indices(':').nth(1) {
        Some((colon, _)) if host_end > 0 || at.matches(':').count() == 2 => {
            (&at[..host_end + colon], Some(&at[host_end + colon + 1..]))
        }
        _ => (at, None),
    };
    let weight = match weight.map(str::parse::<u32>) {
        None => 1,
        Some(Ok(w @ 1..=10_000)) => w,
        Some(_) => return Err(format!("`{text}`: the weight behind the port is a number from 1 to 10000")),
    };
    // twemproxy and libmemcached write addresses of IPv6 without brackets.
    let bare = || at.strip_suffix(":11211").unwrap_or(at).replace(['[', ']'], "");
    let name = name.filter(|n| !n.is_empty()).map_or_else(bare, str::to_string);
    Ok((at, Server { name, weight }))
}

/// The endpoint of a server of a list.
pub(crate) fn server_endpoint(text: &str) -> Result<&str, String> {
    match server(text)?.0 {
        at if at.parse::<u64>().is_ok() => Err(format!("`{at}` has no host; expected host:port, as in 127.0.0.1:8080")),
        at => Ok(at),
    }
}

/// An endpoint as a host, a colon and a port. A port alone is one of all addresses here.
fn host_and_port(text: &str) -> Result<String, String> {
    let full = text.parse::<u16>().map_or_else(|_| text.to_string(), |p| format!("0.0.0.0:{p}"));
    match full.rsplit_once(':') {
        None => Err(format!("`{text}` has no port; expected host:port, as in 127.0.0.1:8080")),
        Some((_, port)) if port.parse::<u16>().is_err() => {
            Err(format!("`{text}`: `{port}` is no port number (0 to 65535); expected host:port, as in 127.0.0.1:8080"))
        }
        Some(("", _)) => Err(format!("`{text}` has no host; expected host:port, as in 127.0.0.1:8080")),
        Some(_) => Ok(full),
    }
}

/// The addresses of an endpoint, as the system's resolver gives them.
pub(crate) fn resolved(text: &str) -> Result<Vec<SocketAddr>, String> {
    let full = host_and_port(text)?;
    let host = full.rsplit_once(':').map_or("", |(host, _)| host);
    let all = full.to_socket_addrs().map_err(|e| format!("cannot resolve `{host}`: {}", resolver(&e)))?;
    Ok(all.collect())
}

/// The resolver's error, without the library's own preface.
fn resolver(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_string()
}

/// Like [`parse`], for data of tables and signals: bytes that are no text are written as `0x` and
/// hexadecimal digits. Behind a blank `0x` is text.
pub fn parse_data(ty: ParamType, text: &str) -> Result<ParamValue, String> {
    let (ParamType::Bytes(max), Some(digits)) = (ty, text.strip_prefix("0x")) else { return parse(ty, text) };
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let pair = |p: &[u8]| Some(digit(p[0])? << 4 | digit(*p.get(1)?)?);
    let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(pair).collect();
    match bytes {
        None => Err("expected pairs of hexadecimal digits behind 0x".into()),
        Some(b) if b.len() > max as usize => Err(format!("must be at most {max} bytes long")),
        Some(b) => Ok(ParamValue::Bytes(b)),
    }
}

/// Like [`parse`], for a value of a form: a number is no address.
pub fn parse_as(ty: ParamType, form: &Form, text: &str) -> Result<ParamValue, String> {
    match form {
        Form::Mac if !text.contains(':') => Err("expected a MAC address".into()),
        Form::Ip4 if !text.contains('.') => Err("expected an IPv4 address".into()),
        _ => parse(ty, text),
    }
}

/// Bytes as [`parse_data`] reads them.
pub fn data_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        // Earlier readers took no notice of blanks before `0x`.
        Ok(text) if !text.trim().starts_with("0x") && !text.contains('\0') => text.into(),
        _ => bytes.iter().fold("0x".to_string(), |s, b| format!("{s}{b:02x}")),
    }
}

/// Parses one value as its type asks.
pub fn parse(ty: ParamType, text: &str) -> Result<ParamValue, String> {
    let t = text.trim();
    match ty {
        ParamType::Bool => match t {
            "true" | "yes" | "on" | "1" => Ok(ParamValue::Bool(true)),
            "false" | "no" | "off" | "0" => Ok(ParamValue::Bool(false)),
            _ => Err("expected true or false".into()),
        },
        ParamType::UInt(32) if t.contains('.') && t.parse::<Ipv4Addr>().is_ok() => {
            Ok(ParamValue::UInt(t.parse::<Ipv4Addr>().map_or(0, u32::from).into()))
        }
        ParamType::UInt(48) if t.contains(':') => mac(t).map(ParamValue::UInt),
        ParamType::UInt(bits) => {
            let n = number(t)?;
            if bits < 64 && n >> bits != 0 {
                return Err(format!("must be at most {}", (1u64 << bits) - 1));
            }
            Ok(ParamValue::UInt(n))
        }
        ParamType::Duration => duration(t).map(ParamValue::Duration),
        ParamType::Bytes(max) if text.len() > max as usize => Err(format!("must be at most {max} bytes long")),
        ParamType::Bytes(_) => Ok(ParamValue::Bytes(text.as_bytes().to_vec())),
        ParamType::Endpoint => host_and_port(t).map(|_| ParamValue::Endpoints(vec![t.to_string()])),
        ParamType::Endpoints(max) => {
            let list: Vec<String> = t.split(',').map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect();
            if list.is_empty() {
                return Err("expected host:port,host:port,...".into());
            }
            if list.len() > max as usize {
                return Err(format!("at most {max} endpoints"));
            }
            for text in &list {
                host_and_port(server_endpoint(text)?)?;
            }
            Ok(ParamValue::Endpoints(list))
        }
        ParamType::Texts(most, size) => {
            let list: Vec<Vec<u8>> = match text {
                "" => Vec::new(),
                _ => text.split(',').map(|s| s.as_bytes().to_vec()).collect(),
            };
            if list.len() > most as usize {
                return Err(format!("at most {most} texts"));
            }
            match list.iter().find(|s| s.len() > size as usize) {
                Some(long) => Err(format!("`{}` must be at most {size} bytes long", String::from_utf8_lossy(long))),
                None => Ok(ParamValue::Texts(list)),
            }
        }
    }
}

/// `02:00:00:00:00:01`
pub fn mac(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no MAC address");
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() != 6 {
        return Err(bad());
    }
    parts.iter().try_fold(0, |n, p| u8::from_str_radix(p, 16).map(|b| n << 8 | u64::from(b)).map_err(|_| bad()))
}

/// A number, with `_` between digits, `0x`, or a size suffix: `64KiB`, `1M`.
pub fn number(text: &str) -> Result<u64, String> {
    let bad = || "expected a number, as in 8080 or 64KiB".to_string();
    let clean = text.replace('_', "");
    if let Some(hex) = clean.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_err(|_| bad());
    }
    let split = clean.find(|c: char| !c.is_ascii_digit()).unwrap_or(clean.len());
    let (digits, unit) = clean.split_at(split);
    let factor: u64 = match unit {
        "" => 1,
        "K" | "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(bad()),
    };
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(bad)
}

pub(crate) fn duration(text: &str) -> Result<u64, String> {
    let bad = || "expected a duration, as in 10ms, 2s or 5m".to_string();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
    let (digits, unit) = text.split_at(split);
    let ns = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(bad()),
    };
    let n: f64 = digits.trim().parse().map_err(|_| bad())?;
    let total = n * ns;
    if !(0.0..=1.8e19).contains(&total) {
        return Err(bad());
    }
    Ok(total as u64)
}

/// A value as text, without the quotes of a string.
pub fn text_of(v: &Value) -> String {
    v.as_str().map_or_else(|| v.to_string(), |s| s.trim().to_string())
}

/// The accepted values of a field, for messages.
pub fn expected(ty: ParamType, form: &Form) -> String {
    match (form, ty) {
        (Form::Enum(names), _) => {
            let named = |n: &String| if n == OTHERS { "a number".into() } else { n.clone() };
            names.iter().map(named).collect::<Vec<_>>().join(" or ")
        }
        (Form::Ip4, _) => "an IPv4 address".into(),
        (Form::Ip6, _) => "an IPv6 address".into(),
        (Form::Wide, _) => "a number of 128 bits".into(),
        (Form::Within(ranges), _) => {
            let one = |(a, b): &(u64, u64)| if a == b { a.to_string() } else { format!("from {a} to {b}") };
            format!("a number {}", ranges.iter().map(one).collect::<Vec<_>>().join(" or "))
        }
        (Form::Ip, _) => "an address".into(),
        (Form::Mac, _) => "a MAC address".into(),
        (_, ParamType::UInt(bits)) => format!("a number of {bits} bits"),
        (_, ParamType::Bool) => "true or false".into(),
        (_, ParamType::Duration) => "a duration, as in 10ms".into(),
        (_, ParamType::Bytes(n)) => format!("at most {n} bytes"),
        (Form::OrPort, _) => "ADDRESS:PORT such as [::1]:8080, or the number of a port".into(),
        (_, ParamType::Endpoint | ParamType::Endpoints(_)) => "host:port".into(),
        (_, ParamType::Texts(most, size)) => format!("at most {most} texts of {size} bytes, with commas between"),
    }
}

/// A value of an open enum without a name.
fn is_other(names: &[String], text: &str) -> bool {
    names.last().is_some_and(|n| n == OTHERS) && text.parse::<u64>().is_ok_and(|n| n.to_string() == text)
}

/// One value, addresses and the common protocols by name included.
pub fn single(ty: ParamType, form: &Form, name: &str, v: &Value) -> Result<ParamValue, String> {
    let bytes = matches!((ty, form), (ParamType::Bytes(_), Form::Plain));
    if matches!(v, Value::Array(_) | Value::Object(_)) || bytes && !v.is_string() && !v.is_number() {
        return Err(format!("expected {} (got {})", expected(ty, form), short(&v.to_string())));
    }
    if bytes {
        // White space belongs to it.
        let text = v.as_str().map_or_else(|| v.to_string(), str::to_string);
        return parse_data(ty, &text).map_err(|e| format!("{e} (got `{}`)", short(&text)));
    }
    let text = text_of(v);
    let named = match text.to_ascii_lowercase().as_str() {
        "icmp" => Some(1),
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmp6" | "icmpv6" => Some(58),
        _ => None,
    };
    let wrong = || format!("expected {} (got `{}`)", expected(ty, form), short(&text));
    match (form, ty) {
        (Form::Enum(names), _) => match names.contains(&text) || is_other(names, &text) {
            true => Ok(ParamValue::Bytes(text.into_bytes())),
            false => Err(wrong() + &suggestions::hint(&text, names.iter().map(String::as_str))),
        },
        (Form::Within(ranges), _) => match number(&text) {
            Ok(n) if ranges.iter().any(|(a, b)| (a..=b).contains(&&n)) => Ok(ParamValue::UInt(n)),
            _ => Err(wrong()),
        },
        (Form::Ip6, _) => text.parse().map(|ip: Ipv6Addr| ParamValue::Bytes(ip.octets().to_vec())).map_err(|_| wrong()),
        (Form::Wide, _) => wide(&text).map(|n| ParamValue::Bytes(n.to_be_bytes().to_vec())).ok_or_else(wrong),
        // Only an address may be written as one.
        (Form::Plain, ParamType::UInt(_)) if text.contains(['.', ':']) => Err(wrong()),
        (Form::Ip, _) => text.parse().map(|ip| ParamValue::Bytes(octets(ip).to_vec())).map_err(|_| wrong()),
        // As tables show them.
        (_, ParamType::Duration) if v.is_u64() => Ok(ParamValue::Duration(v.as_u64().unwrap_or(0))),
        (_, ParamType::UInt(8)) if name == "proto" && named.is_some() => Ok(ParamValue::UInt(named.unwrap_or(0))),
        _ => parse_as(ty, form, &text).map_err(|e| match e.starts_with("must") {
            true => format!("{e} (got `{}`)", short(&text)),
            false if name == "proto" => wrong() + "; those with names are tcp, udp, icmp and icmp6",
            false => wrong(),
        }),
    }
}

/// As much of a given text as a message needs.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into(),
    }
}

/// Decimal, or hexadecimal behind `0x`.
fn wide(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

pub(crate) fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v) => v.to_ipv6_mapped().octets(),
        IpAddr::V6(v) => v.octets(),
    }
}
