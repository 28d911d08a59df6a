import type { Credentials } from './credentials.ts'
import { ModelError, type ModelChoice } from './errors.ts'
import { isSafePath } from './source.ts'

/** A file to bring here. */
export interface RemoteFile {
  readonly url: string
  /** Its last element decides what the content must look like. */
  readonly fileName: string
  /** Where it is kept, relative to the model's folder; cannot leave it. */
  readonly path: string
  readonly role: 'weights' | 'mmproj' | 'other'
  readonly sizeBytes?: number
  /** In hex: of the Model's spec, else the Hub's. */
  readonly sha256?: string
  readonly credentials?: Credentials
  /** The Hub's hash of the content, where it is on the Hub: sha256 or git's. Another hash is another content. */
  readonly blob?: string
  /** Where it is on the Hub. */
  readonly hub?: { readonly repo: string; readonly path: string }
  /** Neither the Hub nor its mirror says who may have it: only a request for the file itself tells. */
  readonly isUnsaid?: boolean
  /** The Hub says, or shows by giving it without a login, that everybody may have it. Absent = its address may be a secret, as presigned ones are. */
  readonly isPublic?: boolean
}

export interface RemoteSource {
  readonly kind: 'remote'
  readonly files: readonly RemoteFile[]
  /** `path` of the file that a runtime is given; empty = the folder. */
  readonly primary: string
  readonly mmproj?: string
  /** The Hub's commit. */
  readonly revision?: string
  /** What a person should know of how the source was understood, one sentence each. */
  readonly notes: readonly string[]
  /** See `Selected.choices`. */
  readonly choices?: readonly ModelChoice[]
}

/** Where files lie in the model's folder: by their names alone, unless two would have the same or `keepFolders`. Throws `UnsafeName`. */
export function placesOf(paths: readonly string[], keepFolders: boolean): ReadonlyMap<string, string> {
  const names = paths.map((path) => path.slice(path.lastIndexOf('/') + 1))
  const isFlat = !keepFolders && new Set(names.map(comparable)).size === paths.length
  const places = new Map(paths.map((path, at) => [path, isFlat ? (names[at] ?? '') : path]))
  const taken = new Map<string, string>()
  for (const [path, place] of places) {
    if (!isSafePath(place) || !isSafePath(path)) {
      throw unsafe(`The file name ${shown(path)} cannot be kept safely in the model store: give another source.`)
    }
    const other = taken.get(comparable(place))
    if (other !== undefined) {
      throw unsafe(
        `The files ${shown(other)} and ${shown(path)} differ in case alone, which a Mac's disk does not tell apart: give another source.`,
      )
    }
    taken.set(comparable(place), path)
  }
  return places
}

function unsafe(message: string): ModelError {
  return new ModelError('terminal', 'UnsafeName', message)
}

function shown(path: string): string {
  return JSON.stringify(path.length > 120 ? `${path.slice(0, 120)}…` : path)
}

/** As the volumes of macOS compare names. */
function comparable(path: string): string {
  return path.normalize('NFC').toLowerCase()
}
