// SPDX-License-Identifier: Apache-2.0
// What programs of several allocators do. Each line of input is answered; "calls" makes the
// allocations of extended.h's lines "truth:".

#[inline(never)]
fn hold_block(bytes: usize) -> Box<[u8]> {
    vec![1u8; bytes].into_boxed_slice()
}

#[inline(never)]
fn zeroed_block(bytes: usize) -> Box<[u8]> {
    vec![0u8; bytes].into_boxed_slice()
}

#[inline(never)]
fn grow_block(block: &mut Vec<u8>, by: usize) {
    block.reserve_exact(by);
}

fn make_calls() {
    let mut held = Vec::with_capacity(4000);
    for _ in 0..1000 {
        held.push(hold_block(100));
        held.push(zeroed_block(50));
    }
    let mut grown = Vec::with_capacity(10);
    for i in 1..=100 {
        grow_block(&mut grown, 100 * i);
    }
    held.truncate(1000);
    std::mem::forget((held, grown));
    println!("truth: {}::hold_block 100000 1000 50000", module_path!());
    println!("truth: {}::zeroed_block 50000 1000 25000", module_path!());
    println!("truth: {}::grow_block 505000 100 10000", module_path!());
}

fn main() {
    let mut byte = [0u8; 1];
    let mut first = 0u8;
    while std::io::Read::read(&mut std::io::stdin().lock(), &mut byte).unwrap_or(0) == 1 {
        if byte[0] != b'\n' {
            first = if first == 0 { byte[0] } else { first };
            continue;
        }
        if first == b'c' {
            make_calls();
        }
        first = 0;
        println!("ok");
        let _ = std::io::Write::flush(&mut std::io::stdout());
    }
}
