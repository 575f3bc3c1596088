//! The codes of the compiler's own defects: E08xx. No program is known that has one.

use super::code;
use super::Code;

pub static CODES: &[Code] = &[code(
    "E0801",
    "a defect of the compiler",
    "The compiler could not translate this part, and cannot tell why. The program is not run \
     without it. Please report the program. Another form of the line may work.",
    "",
)];
