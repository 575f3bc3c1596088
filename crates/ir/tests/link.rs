//! The parameters of the modelled link.

use wireloom_ir::link::Link;

#[test]
fn parameters_are_checked() {
    let of = |text: &str| Link::of(&[], &[text.to_string()]);
    assert_eq!(of("batch=8,wait=0").map(|l| (l.batch, l.wait)), Ok((8, 0)));
    for wrong in ["batch", "batch=x", "batch=0", "entry=100", "entry=200", "speed=3", "payload=1", "blocking=2"] {
        assert!(of(wrong).is_err_and(|e| e.contains(wrong.split('=').next().unwrap_or(""))), "{wrong}");
    }
}

#[test]
fn arguments_come_over_the_program() {
    let program = [("batch".to_string(), 4), ("wait".to_string(), 7)];
    assert_eq!(Link::of(&program, &["batch=9".into()]).map(|l| (l.batch, l.wait, l.op)), Ok((9, 7, 100)));
}
