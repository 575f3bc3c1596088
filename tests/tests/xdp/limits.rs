//! Handlers beyond what the kernel's stack and its verifier have room for, if their values were
//! kept as those of others are. They lie in memory instead, and mean the same.

use super::*;

/// A program whose values are alive all at once: of each entry, until it is logged.
fn nested() -> String {
    let names = ('a'..='l').map(String::from).collect::<Vec<_>>();
    let open = |(n, c): (usize, &String)| format!("if let {c} = two[n % {}] {{\n", n + 2);
    let close = |c: &String| format!("log \"{c} \", {c}.a, \" \", {c}.b, \" \", {c}.n\n}}\n");
    let opened: String = names.iter().enumerate().map(open).collect();
    let closed: String = names.iter().rev().map(close).collect();
    format!(
        "record Two {{ a: bytes<16>  b: bytes<16>  n: u32 }}
fn cut(b: bytes<64>) -> bytes<16> = slice(b, 0, 16)
app nested {{
    port wire = nic(\"eth0\")
    state n: u32 = 1
    table two: u32 -> Two {{ capacity 64 }}
    on wire(p) where p.ip4 {{
        n += u32(p.ip4.ttl)
        update two[n % 16] {{
            .a = cut(concat(.b, text(n)))
            .b = cut(slice(p.payload, 0, 12))
            .n += n
        }}
{opened}{closed}
        p -> kernel
    }}
}}
"
    )
}

/// Loops in a loop, and many ways through each round.
const LOOPS: &str = "fn longer(a: bytes<16>, b: bytes<16>) -> bytes<16> { if len(a) > len(b) { return a }  b }
fn cut(b: bytes<64>) -> bytes<16> = slice(b, 0, 16)
app loops {
    port wire = nic(\"eth0\")
    state s3: i32
    state s4: bool
    state s5: u64 = 8
    state s6: u32 = 100
    counter c7
    table t9: u32 -> u8 { capacity 2000, per_core }
    on wire(p) where p.vlan {
        if p.ip4 { log p.ip4.ttl }
        loop max 3 {
            match u8(s5) {
                0 => { t9[(u32(s5) % 5)] += 127 }
                1..=9 | 31 => { log \"s4 \", s4 }
                x if x % 2 == 0 => {
                    let (x12, x13) = (cut(slice(p.payload, 0, 12)), \"ab\")
                    log x12, x13
                }
                _ => { s4 = 2 <= u16(p.vlan.vid) }
            }
            if s3 + s3 >= (s3 | 255) {
                t9[(s6 % 2)] += (if s4 { 1 } else { 200 })
            } else {
                t9[((p.len ^ s6) % 2)] += 3
            }
        }
        for i14 in 0..min(p.len, 4) {
            loop max 2 {
                t9[((8 - s6) % 5)] += 6
                if let w15 = t9[((s6 % (i14 | 1)) % 12)] {
                    let (x16, x17) = (cut(slice(p.payload, 0, 12)), cut(slice(\"dEf\", 0, 0)))
                    if let w18 = t9[(2 % 5)] {
                        log \"x16 \", x16, x17
                        log \"w18 \", w18
                    }
                    log \"w15 \", w15
                }
                if ((u16(p.vlan.vid) & 255) < (u16(p.vlan.vid) +| 5)) { continue }
            }
            if ((u16(p.vlan.vid) - 200) > 100) {
                log \"s3 \", s3
                s6 = (p.len ^ (5 % (p.len | 1)))
            } else {
                let (x19, x20) = (longer(\"\", \"0123456789abcdef\"), cut(slice(p.payload, 0, 12)))
                if let w21 = t9[(max(i14, p.len) % 2)] {
                    log \"x20 \", x20, x19
                    if p.ip4 { log p.ip4.ttl }
                    log \"w21 \", w21
                }
            }
        }
        if let w22 = t9[(s6 % 2)] {
            if ((s5 + s5) < s5) {
                t9[((if s4 { p.len } else { 100 }) % 12)] += (w22 -| w22)
                c7 += u64(w22 - w22)
            } else {
                s6 = (8 % (p.len | 1))
            }
            log \"w22 \", w22
        }
        log \"s6 \", s6
        p -> kernel
    }
}
";

/// Runs a program beside the interpreter. It must need programs of a kind, if those before it are
/// tried.
fn in_memory(name: &str, text: &str, thrift: Thrift) {
    let thrift = if usual_thrift() == Thrift::Apart { Thrift::Apart } else { thrift };
    let folder = Folder::new(name);
    let run = |both: &mut Both| {
        assert_eq!(both.object.lock().unwrap().thrift(), thrift, "there are programs that are faster");
        hostile(2_000)(&mut |bytes| both.frame(bytes));
    };
    let Some(sum) = beside_it(&written(&folder, text), &[], 1000, run) else { return };
    assert!(sum.sent > 1000 && sum.entries > 3, "{sum:?}");
}

#[test]
fn more_values_than_the_stack_holds() {
    in_memory("xdp-nested", &nested(), Thrift::Far);
}

#[test]
fn more_ways_than_the_verifier_follows() {
    in_memory("xdp-loops", LOOPS, Thrift::Far);
}

/// Twice as many, also for programs with values in memory.
#[test]
fn rounds_are_verified_apart() {
    let (_, loops) = LOOPS.split_once("        for i14").expect("the second loop");
    let (one, _) = loops.split_once("        if let w22").expect("what is behind it");
    BEGIN.set(Thrift::Far);
    let text =
        LOOPS.replace("        if let w22", &format!("        for i14{one}        for i14{one}        if let w22"));
    in_memory("xdp-more-loops", &text, Thrift::Apart);
}

/// A handler all of whose sends stand in rounds of loops, which are functions of their own.
const SENDS_IN_ROUNDS: &str = "app rounds {
    port wire = nic(\"eth0\")
    state n: u32 = 1
    table seen: u32 -> u32 { capacity 64 }
    on wire(p) {
        for i in 0..min(p.len, 4) {
            n += p.len ^ i
            log \"n \", n
            seen[n % 5] += i
            if n % 3 == i % 3 {
                log \"sent \", i
                p -> kernel
                return
            }
        }
    }
}
";

#[test]
fn sends_in_rounds_are_apart() {
    BEGIN.set(Thrift::Apart);
    in_memory("xdp-rounds", SENDS_IN_ROUNDS, Thrift::Apart);
}
