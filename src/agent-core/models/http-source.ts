import { ModelError } from './errors.ts'
import { placesOf, type RemoteFile, type RemoteSource } from './remote-file.ts'
import { isFolderFormat, type Choice } from './selection.ts'
import { parseShard, shardPaths } from './shards.ts'
import { isSafePath, modelFileName, shownSource } from './source.ts'

/** Which files an address means, without asking its server: the file, all shards of its group, `files` and `mmproj` beside it. Throws ModelError. */
export function resolveHttp(
  url: string,
  source: string,
  { files = [], mmproj = '', format = 'gguf', sha256 }: Choice & { readonly sha256?: string | undefined },
): RemoteSource {
  const address = new URL(url)
  const named = lastElement(address)
  const isFile = /\.[a-z0-9]{1,12}$/i.test(named) && !address.pathname.endsWith('/')
  if (isFolderFormat(format) && files.length === 0) {
    throw new ModelError(
      'terminal',
      'UnsupportedSource',
      `${shownSource(source)} cannot be listed, and a model of spec.format ${format} has several files: name them in spec.files, or give a Hugging Face repository (hf://owner/name) or the absolute path of a folder.`,
    )
  }
  const weights =
    files.length > 0 ? files.map((file) => besides(address, isFile, file, 'spec.files')) : groupOf(address)
  const projector = mmproj === '' ? undefined : besides(address, isFile, mmproj, 'spec.mmproj')
  const all = withoutRepetition(projector === undefined ? weights : [...weights, projector])
  const isSingle = all.length === 1
  const places = isSingle
    ? undefined
    : placesOf(
        all.map(({ path }) => path),
        isFolderFormat(format),
      )
  const remote = all.map((file, at): RemoteFile => {
    const path = places?.get(file.path) ?? (files.length > 0 ? file.path : modelFileName(source))
    return {
      url: file.url,
      fileName: path,
      path,
      role: file === projector ? 'mmproj' : 'weights',
      ...(at === 0 && sha256 !== undefined ? { sha256: sha256.toLowerCase() } : {}),
    }
  })
  const mmprojPath = remote.find(({ role }) => role === 'mmproj')?.path
  return {
    kind: 'remote',
    files: remote,
    primary: isFolderFormat(format) ? '' : (remote[0]?.path ?? ''),
    ...(mmprojPath === undefined ? {} : { mmproj: mmprojPath }),
    notes: [],
  }
}

interface Addressed {
  readonly url: string
  /** Decoded; only for its name. */
  readonly path: string
}

function groupOf(address: URL): Addressed[] {
  const name = lastElement(address)
  const shard = parseShard(name)
  if (shard === undefined) return [{ url: address.href, path: name }]
  return shardPaths(name, shard).map((path) => ({ url: sibling(address, path), path }))
}

/** A file relative to the source: to the folder of a file, to a folder itself. */
function besides(address: URL, isFile: boolean, file: string, where: string): Addressed {
  if (!isSafePath(file)) {
    throw new ModelError(
      'terminal',
      'UnsafeName',
      `${where} names ${JSON.stringify(file.slice(0, 120))}, which is no safe relative path: name a file beside spec.source.`,
    )
  }
  const base = new URL(address)
  if (!isFile && !base.pathname.endsWith('/')) base.pathname += '/'
  return { url: sibling(base, file.split('/').map(encodeURIComponent).join('/'), false), path: file }
}

/** The address with another last element, its query kept: servers that want one want it for every file. */
function sibling(address: URL, name: string, encode = true): string {
  const next = new URL(address)
  next.pathname =
    next.pathname.slice(0, next.pathname.lastIndexOf('/') + 1) + (encode ? encodeURIComponent(name) : name)
  return next.href
}

function withoutRepetition(files: readonly Addressed[]): Addressed[] {
  const byUrl = new Map<string, Addressed>()
  for (const file of files) byUrl.set(file.url, file)
  return [...byUrl.values()]
}

function lastElement({ pathname }: URL): string {
  const element = pathname.slice(pathname.lastIndexOf('/') + 1)
  try {
    return decodeURIComponent(element)
  } catch {
    return element
  }
}
