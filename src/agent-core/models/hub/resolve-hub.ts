import { hubCredentials } from '../credentials.ts'
import { ModelError } from '../errors.ts'
import { placesOf, type RemoteFile, type RemoteSource } from '../remote-file.ts'
import type { Place } from '../model-groups.ts'
import { isFolderFormat, isWeightsName, selectFiles, type Choice } from '../selection.ts'
import { parseShard, shardPaths } from '../shards.ts'
import type { HubAddress } from '../source.ts'
import { fileUrl } from './endpoint.ts'
import type { HubClient, HubFile } from './hub-client.ts'
import type { HubToken } from './token.ts'

export interface HubContext {
  readonly client: HubClient
  readonly endpoint: string
  readonly token: HubToken | undefined
  readonly allowInsecureLoopback?: boolean | undefined
}

/** The files of a repository that a Model means, pinned to the commit that its revision is now. Throws ModelError. */
export async function resolveHub(
  address: HubAddress,
  wanted: Choice & { readonly sha256?: string | undefined },
  { client, endpoint, token, allowInsecureLoopback }: HubContext,
): Promise<RemoteSource> {
  const { repo, path, revision = 'main' } = address
  const choice = { ...wanted, path, quantization: quantizationOf(address, wanted) }
  const { commit, isPublic } = await client.state(repo, revision)
  const at = commit ?? revision
  const asked = exactPaths(choice)
  const known = asked === undefined ? [] : await client.info(repo, at, asked)
  const isKnown = known.some((file) => file.path === path)
  // Where the file is missing the sentence lists the files that exist.
  const listing = isKnown ? known : await client.list(repo, at)
  const place: Place = { name: repo, naming: (file) => sourceOfFile(address, file), isLocal: false }
  const selected = selectFiles(listing, choice, place)
  const [first] = selected.files
  if (isPublic !== true && first !== undefined) await client.requireAccess(repo, at, first.path)
  const { mmproj: projector } = selected
  const all =
    projector === undefined ? selected.files : [...selected.files.filter((file) => file !== projector), projector]
  const isFolder = isFolderFormat(wanted.format ?? 'gguf')
  const prefix = isFolder && path !== undefined ? `${path}/` : ''
  const places = placesOf(
    all.map((file) => below(prefix, file.path)),
    isFolder,
  )
  const credentials = hubCredentials(endpoint, token, allowInsecureLoopback)
  // What lies beside the weights is often given to everybody.
  const telling = all.find(({ path: name }) => isWeightsName(name)) ?? first
  const files = all.map((file): RemoteFile => {
    const kept = places.get(below(prefix, file.path)) ?? file.path
    const sha256 = checksumOf(file, file === first ? wanted.sha256 : undefined, repo)
    return {
      url: fileUrl(endpoint, repo, at, file.path),
      fileName: kept,
      path: kept,
      role: file === projector ? 'mmproj' : /\.(?:gguf|safetensors|bin|pt|pth)$/i.test(kept) ? 'weights' : 'other',
      sizeBytes: file.sizeBytes,
      ...(sha256 === undefined ? {} : { sha256 }),
      ...(credentials === undefined ? {} : { credentials }),
      blob: file.blob,
      hub: { repo, path: file.path },
      ...(isPublic === undefined && file === telling && { isUnsaid: true }),
      isPublic: isPublic ?? credentials === undefined,
    }
  })
  const mmproj = files.find(({ role }) => role === 'mmproj')?.path
  return {
    kind: 'remote',
    files,
    primary: isFolder ? '' : (files[0]?.path ?? ''),
    ...(mmproj === undefined ? {} : { mmproj }),
    ...(commit === undefined ? {} : { revision: commit }),
    notes: selected.notes,
    ...(selected.choices && { choices: selected.choices }),
  }
}

/** An `@` in the path of a source would begin its revision, so one is named then. */
function sourceOfFile({ repo, revision }: HubAddress, file: string): string {
  const at = revision ?? (file.includes('@') ? 'main' : undefined)
  return `hf://${repo}${at === undefined ? '' : `@${at}`}/${file}`
}

/** All that can be meant, where the Model names files and not a folder: one small request in place of a listing. */
function exactPaths({ path, files = [], mmproj = '', format = 'gguf' }: Choice): readonly string[] | undefined {
  if (path === undefined || !/\.gguf$/i.test(path) || files.length > 0 || isFolderFormat(format)) return undefined
  const shard = parseShard(path)
  const weights = shard === undefined ? [path] : shardPaths(path, shard)
  return mmproj === '' ? weights : [...weights, mmproj]
}

function quantizationOf({ repo, quantization }: HubAddress, wanted: Choice): string | undefined {
  const asked = wanted.quantization === '' ? undefined : wanted.quantization
  if (quantization === undefined || asked === undefined) return quantization ?? asked
  if (quantization.toUpperCase() === asked.toUpperCase()) return asked
  throw new ModelError(
    'terminal',
    'Ambiguous',
    `spec.source asks for ${repo}:${quantization} and spec.quantization for ${asked}: leave one of them out.`,
  )
}

function checksumOf({ path, sha256 }: HubFile, wanted: string | undefined, repo: string): string | undefined {
  const stated = wanted?.toLowerCase()
  if (stated !== undefined && sha256 !== undefined && stated !== sha256) {
    throw new ModelError(
      'terminal',
      'WrongChecksum',
      `spec.sha256 is ${stated}, but the Hub's ${path} of ${repo} has ${sha256}: correct spec.sha256, or name the revision that is meant as hf://${repo}/${path}@COMMIT.`,
    )
  }
  return stated ?? sha256
}

function below(prefix: string, path: string): string {
  return path.startsWith(prefix) ? path.slice(prefix.length) : path
}
