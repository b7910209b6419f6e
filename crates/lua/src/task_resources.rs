//! Objects that tasks own outside of Lua, such as requests to other servers: they end with their
//! task.

use std::collections::HashMap;
use std::hash::Hash;

use crate::task::TaskId;

/// The objects that the tasks of a VM own, by the key of each.
#[derive(Debug)]
pub(crate) struct TaskOwned<K, V> {
    all: HashMap<K, Owned<V>>,
    by_owner: HashMap<TaskId, Vec<K>>,
}

/// One object and its owner.
#[derive(Debug)]
pub(crate) struct Owned<V> {
    owner: TaskId,
    /// The task that waits for news of the object.
    pub(crate) waiter: TaskId,
    pub(crate) value: V,
}

impl<K, V> Default for TaskOwned<K, V> {
    fn default() -> Self {
        Self { all: HashMap::new(), by_owner: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash, V> TaskOwned<K, V> {
    /// Adds an object of a task.
    pub(crate) fn add(&mut self, key: K, owner: TaskId, value: V) {
        self.all.insert(key, Owned { owner, waiter: owner, value });
        self.by_owner.entry(owner).or_default().push(key);
    }

    pub(crate) fn get(&self, key: K) -> Option<&Owned<V>> {
        self.all.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut Owned<V>> {
        self.all.get_mut(&key)
    }

    /// Returns the task that owns an object.
    pub(crate) fn owner_of(&self, key: K) -> Option<TaskId> {
        self.all.get(&key).map(|owned| owned.owner)
    }

    /// Returns how many objects a task owns.
    pub(crate) fn count_of(&self, owner: TaskId) -> usize {
        self.by_owner.get(&owner).map_or(0, Vec::len)
    }

    /// Removes an object and returns its value.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let owned = self.all.remove(&key)?;
        let owner = owned.owner;
        if let Some(keys) = self.by_owner.get_mut(&owner) {
            keys.retain(|one| *one != key);
            if keys.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
        Some(owned.value)
    }

    /// Returns the keys of the objects of a task.
    pub(crate) fn owned_by(&self, owner: TaskId) -> Vec<K> {
        self.by_owner.get(&owner).cloned().unwrap_or_default()
    }

    /// Returns all keys.
    pub(crate) fn keys(&self) -> Vec<K> {
        self.all.keys().copied().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_resources_of_a_task_are_removed_with_it() {
        let mut owned = TaskOwned::default();
        let (first, second) = (TaskId::new(1, 7), TaskId::new(1, 8));
        for (key, owner) in [(1, first), (2, first), (3, second)] {
            owned.add(key, owner, "value");
        }
        assert_eq!((owned.owned_by(first), owned.count_of(second)), (vec![1, 2], 1));
        assert_eq!((owned.owner_of(2), owned.owner_of(4)), (Some(first), None));
        for key in owned.owned_by(first) {
            assert_eq!(owned.remove(key), Some("value"));
        }
        assert_eq!((owned.count_of(first), owned.keys()), (0, vec![3]));
        assert_eq!(owned.remove(3), Some("value"));
        assert!(owned.is_empty() && owned.by_owner.is_empty() && owned.get(3).is_none());
    }
}
