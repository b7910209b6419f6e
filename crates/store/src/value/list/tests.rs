use proptest::prelude::*;

use super::chunk::CHUNK_MAX_BYTES;
use super::*;

fn check(list: &ListValue, model: &VecDeque<Vec<u8>>) {
    assert_eq!(list.len(), model.len());
    assert!(list.iter_from(0).eq(model.iter().map(|it| &it[..])));
    if let Some(last) = model.len().checked_sub(1) {
        assert!(list.iter_back_from(last).eq(model.iter().rev().map(|it| &it[..])));
    }
    for index in (0..model.len()).step_by(7) {
        assert_eq!(list.get(index), Some(&model[index][..]));
        let back: Vec<_> = list.iter_back_from(index).take(3).collect();
        let expected: Vec<_> = model.iter().take(index + 1).rev().take(3).collect();
        assert_eq!(back, expected);
    }
    assert_eq!(list.get(model.len()), None);
    if let ListValue::Chunked(list) = list {
        assert!(list.chunks.len() > 1);
        let chunks = || list.chunks.iter();
        assert!(chunks().all(|it| it.len > 0 && it.len as usize == it.chunk.len()));
        assert_eq!(chunks().map(|it| it.len as usize).sum::<usize>(), list.len);
        assert_eq!(chunks().map(|it| it.chunk.memory_bytes()).sum::<usize>(), list.chunk_bytes);
        let largest = allocated_bytes(CHUNK_MAX_BYTES);
        let mut large = chunks().filter(|it| it.chunk.memory_bytes() > largest);
        assert!(large.all(|it| it.len == 1), "only one large element has a large chunk");
    }
}

/// Returns one of a few elements of all kinds of lengths, so that some are equal.
fn element(choice: u16) -> Vec<u8> {
    const LENGTHS: [usize; 8] = [0, 1, 20, 127, 128, 300, 4000, 9000];
    let length = LENGTHS[usize::from(choice) % LENGTHS.len()];
    vec![(choice / 8) as u8; length]
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(ListEnd, u16),
    Drop(ListEnd),
    Set(usize, u16),
    Insert(usize, u16),
    RemoveRange(usize, usize),
    RemoveEqual(ListEnd, u16, usize),
}

fn end() -> impl Strategy<Value = ListEnd> {
    prop_oneof![Just(ListEnd::Left), Just(ListEnd::Right)]
}

fn step(elements: u16) -> impl Strategy<Value = Step> {
    let choice = 0..elements;
    prop_oneof![
        12 => (end(), choice.clone()).prop_map(|(end, choice)| Step::Push(end, choice)),
        3 => end().prop_map(Step::Drop),
        2 => (any::<usize>(), choice.clone()).prop_map(|(at, choice)| Step::Set(at, choice)),
        6 => (any::<usize>(), choice.clone()).prop_map(|(at, choice)| Step::Insert(at, choice)),
        1 => (any::<usize>(), 0..30_usize).prop_map(|(at, count)| Step::RemoveRange(at, count)),
        1 => (end(), choice, 1..8_usize).prop_map(|(end, choice, most)| {
            Step::RemoveEqual(end, choice, most)
        }),
    ]
}

fn apply(step: Step, list: &mut ListValue, model: &mut VecDeque<Vec<u8>>) {
    let len = model.len();
    match step {
        Step::Push(end, choice) => {
            list.push(end, &element(choice));
            match end {
                ListEnd::Left => model.push_front(element(choice)),
                ListEnd::Right => model.push_back(element(choice)),
            }
        }
        Step::Drop(end) => {
            let expected = if end == ListEnd::Left { model.pop_front() } else { model.pop_back() };
            assert_eq!(list.peek(end), expected.as_deref());
            list.drop_end(end);
        }
        Step::Set(at, choice) if len > 0 => {
            list.set(at % len, &element(choice));
            model[at % len] = element(choice);
        }
        Step::Set(..) => {}
        Step::Insert(at, choice) => {
            list.insert(at % (len + 1), &element(choice));
            model.insert(at % (len + 1), element(choice));
        }
        Step::RemoveRange(at, count) => {
            let start = at % (len + 1);
            list.remove_range(start..start + count);
            model.drain(start..(start + count).min(len));
        }
        Step::RemoveEqual(end, choice, most) => {
            let removed = list.remove_equal(end, &element(choice), most);
            let mut equal: Vec<usize> = (0..len).filter(|&i| model[i] == element(choice)).collect();
            if end == ListEnd::Right {
                equal.reverse();
            }
            equal.truncate(most);
            assert_eq!(removed, equal.len());
            equal.sort_unstable();
            for index in equal.into_iter().rev() {
                model.remove(index);
            }
        }
    }
}

#[test]
fn a_list_used_as_a_queue_does_not_grow() {
    let mut list = ListValue::default();
    for number in 0..20_000_u32 {
        list.push(ListEnd::Right, &number.to_le_bytes());
        if number >= 100 {
            assert_eq!(list.peek(ListEnd::Left), Some(&(number - 100).to_le_bytes()[..]));
            list.drop_end(ListEnd::Left);
        }
    }
    assert!(matches!(list, ListValue::Compact(_)));
    assert!(list.memory_bytes() < 100 * 6 * 2, "{}", list.memory_bytes());
}

#[test]
fn a_long_list_releases_memory_when_shortened() {
    let mut list = ListValue::default();
    for number in 0..100_000_u32 {
        list.push(ListEnd::Left, &number.to_le_bytes());
    }
    // Each element has two bytes of length.
    assert!(list.memory_bytes() < 100_000 * 7, "{}", list.memory_bytes());
    assert!(list.parts() > 64);
    let removed = list.remove_range(10..99_990);
    assert!(removed.len() > 90_000);
    assert!(list.memory_bytes() < 1000, "{}", list.memory_bytes());
    assert_eq!(list.get(10), Some(&9_u32.to_le_bytes()[..]));
}

proptest! {
    #[test]
    fn a_small_list_agrees_with_a_deque(steps in prop::collection::vec(step(40), 0..60)) {
        let (mut list, mut model) = (ListValue::default(), VecDeque::new());
        for step in steps {
            // Short elements only: most of these lists have one chunk.
            apply(step, &mut list, &mut model);
            check(&list, &model);
        }
    }

    #[test]
    fn a_long_list_agrees_with_a_deque(
        choices in prop::collection::vec(0..48_u16, 0..400),
        steps in prop::collection::vec(step(48), 0..300),
    ) {
        let (mut list, mut model) = (ListValue::default(), VecDeque::new());
        for choice in choices {
            apply(Step::Push(ListEnd::Right, choice), &mut list, &mut model);
        }
        for (number, step) in steps.into_iter().enumerate() {
            apply(step, &mut list, &mut model);
            if number % 16 == 0 {
                check(&list, &model);
            }
        }
        check(&list, &model);
    }
}
