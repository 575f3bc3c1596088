//! The distribution of a merge over cores.

/// A tree of tasks. Each child merges as many of the first inputs as its entry says, and hands its
/// stream to the root. The root merges those streams with the inputs that are left. It writes to
/// the reducer.
#[derive(Debug, PartialEq, Eq)]
pub struct MergePlan {
    pub children: Vec<usize>,
    pub own: usize,
}

/// The plan in which the busiest task has the fewest streams. A task reads each of its streams
/// once, so that is the load to balance. On one core it is one task. A tree there would parse most
/// messages twice and gain nothing, as the program's merge is a tournament by itself.
pub fn plan(inputs: usize, cores: usize) -> MergePlan {
    let mut best = (inputs, MergePlan { children: Vec::new(), own: inputs });
    for count in 1..cores.min(inputs / 2 + 1) {
        for own in 0..=inputs - 2 * count {
            let load = (own + count).max((inputs - own).div_ceil(count));
            if load < best.0 {
                best = (load, MergePlan { children: shares(inputs - own, count), own });
            }
        }
    }
    best.1
}

fn shares(inputs: usize, count: usize) -> Vec<usize> {
    (0..count).map(|i| inputs / count + usize::from(i < inputs % count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_balanced_and_cover_all_inputs() {
        assert_eq!(plan(8, 1), MergePlan { children: vec![], own: 8 });
        assert_eq!(plan(8, 2), MergePlan { children: vec![5], own: 3 });
        assert_eq!(plan(8, 4), MergePlan { children: vec![3, 3, 2], own: 0 });
        assert_eq!(plan(2, 4), MergePlan { children: vec![], own: 2 });
        for inputs in 1..70 {
            for cores in 1..20 {
                let p = plan(inputs, cores);
                assert_eq!(p.own + p.children.iter().sum::<usize>(), inputs);
                assert!(p.children.len() < cores && p.children.iter().all(|n| *n >= 2));
                assert!(
                    p.own + p.children.len() <= inputs,
                    "the root has no more streams than the program's merge takes"
                );
            }
        }
    }
}
