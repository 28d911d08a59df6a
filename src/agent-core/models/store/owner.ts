/**
 * The owners that stored bytes can have, decided by what was sent to fetch them and never by what a server says of them. What was fetched
 * with a Secret of a namespace belongs to that namespace's name: a namespace that is deleted and created again gets it back.
 */
export const owners = {
  /** Nothing secret was sent for it, or it was put into the store by others. */
  everybody: '',
  /** The login for the Hub of the person at this machine was sent for it. */
  hubLogin: '_hub-login',
  /** The person at this machine fetched it with another secret. */
  person: '_person',
  /** It is of a server that the Secret of this Model names: the same source may mean something else with another Secret. */
  model: (namespace: string, model: string): string => `${namespace}+${model}`,
} as const

/** The first character of the folders of what we fetched: no Model's name can begin with it. */
const mark = '@'

/** The name of an owner's folder in the store. */
export const folderOfOwner = (owner: string): string => mark + owner

/** The owner of what lies in a folder of the store; undefined for a folder that is not ours. */
export const ownerOfFolder = (name: string): string | undefined => (name.startsWith(mark) ? name.slice(1) : undefined)

/** Whether a Model of the namespace may name the files by their paths. `''` = the person at this machine. */
export const isOpenTo = (owner: string, namespace: string): boolean =>
  owner === owners.everybody || namespace === '' || owner === namespace || owner.startsWith(owners.model(namespace, ''))

/** See `owners.model`. */
export const isOfOneModel = (owner: string): boolean => owner.includes('+')
