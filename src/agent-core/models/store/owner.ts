/**
 * The owners that stored bytes can have, decided by what was sent to fetch them and never by what a server says of them. What was fetched
 * with a Secret of a namespace belongs to that namespace's name: a namespace that is deleted and created again gets it back.
 */
export const owners = {
  /** Nothing secret was sent for it, or it lay in the store already. */
  everybody: '',
  /** The login for the Hub of the person at this machine was sent for it. */
  hubLogin: '_hub-login',
  /** The person at this machine fetched it with another secret. */
  person: '_person',
  /** It is of a server that the Secret of this Model names: the same source may mean something else with another Secret. */
  model: (namespace: string, model: string): string => `${namespace}+${model}`,
} as const

/** The first character of the folder of every owner but everybody; no Model's name can begin with it. */
const mark = '@'

/** Relative to the store, for the path of a Model's folder; empty = the store itself. */
export const folderOfOwner = (owner: string): string => (owner === owners.everybody ? '' : mark + owner)

/** The owner, by the first element of a path below the store. */
export const ownerOfFolder = (name: string): string => (name.startsWith(mark) ? name.slice(1) : owners.everybody)

/** Whether a Model of the namespace may name the files by their paths. `''` = the person at this machine. */
export const isOpenTo = (owner: string, namespace: string): boolean =>
  owner === owners.everybody || namespace === '' || owner === namespace || owner.startsWith(owners.model(namespace, ''))

/** See `owners.model`. */
export const isOfOneModel = (owner: string): boolean => owner.includes('+')
