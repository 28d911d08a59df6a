import { z } from 'zod'
import { boundedBody } from '../util/bounded-body.ts'
import { parseJson } from '../util/files.ts'
import { connectionError, refusal } from './download/answer.ts'
import { ModelError } from './errors.ts'
import type { Fetch } from './hub/client.ts'
import { isSafeFileName, maxOllamaTextBytes, type OllamaAddress, ollamaNameOf, ollamaTexts } from './source.ts'

const manifestType = 'application/vnd.docker.distribution.manifest.v2+json'
const layerPrefix = 'application/vnd.ollama.image.'
/** A manifest has a layer for each part of a model, and takes a kilobyte. */
const maxManifestBytes = 1024 * 1024
const answerMs = 30_000

const layer = z.object({
  mediaType: z.string().max(200),
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  size: z.int().positive(),
})
const manifest = z.object({ layers: z.array(layer).max(1_000) })

interface LibraryContext {
  readonly transport: { readonly fetch: Fetch }
  readonly signal: AbortSignal
  /** For tests: a registry on this machine speaks http. */
  readonly allowInsecureLoopback?: boolean | undefined
}

/** A file behind a tag. */
export interface LibraryFile {
  readonly url: string
  /** A safe name. */
  readonly path: string
  readonly role: 'weights' | 'mmproj' | 'other'
  readonly sizeBytes: number
  /** `sha256:` and hex. */
  readonly digest: string
}

/** The one GGUF file behind a tag of a registry, its projector, and what it says to a model. Throws ModelError or the signal's reason. */
export async function libraryFiles(address: OllamaAddress, context: LibraryContext): Promise<LibraryFile[]> {
  const { host, namespace, name, tag } = address
  const isHere = context.allowInsecureLoopback === true && host.startsWith('127.0.0.1:')
  const base = `${isHere ? 'http' : 'https'}://${host}/v2/${namespace}/${name}`
  const shown = ollamaNameOf(address)
  const { layers } = await manifestAt(`${base}/manifests/${tag}`, shown, context)
  const of = (kind: string) => layers.filter(({ mediaType }) => mediaType === `${layerPrefix}${kind}`)
  const [weights, ...more] = of('model')
  const [projector] = of('projector')
  if (weights === undefined || more.length > 0 || of('adapter').length > 0) {
    throw ModelError.terminal(
      'NotAModel',
      `${shown} is not a single GGUF model${of('adapter').length > 0 ? ' but one with an adapter' : ', or runs elsewhere'}: choose another tag.`,
    )
  }
  const fileOf = ({ digest, size: sizeBytes }: z.infer<typeof layer>, path: string, role: LibraryFile['role']) => ({
    ...{ url: `${base}/blobs/${digest}`, path, role, sizeBytes, digest },
  })
  const texts = Object.entries(ollamaTexts).flatMap(([kind, path]) => {
    const [text] = of(kind)
    return text === undefined || text.size > maxOllamaTextBytes ? [] : [fileOf(text, path, 'other')]
  })
  const path = isSafeFileName(`${name}-${tag}.gguf`) ? `${name}-${tag}.gguf` : 'model.gguf'
  const besides = projector ? [fileOf(projector, `mmproj-${path}`.slice(0, maxNameLength), 'mmproj')] : []
  return [fileOf(weights, path, 'weights'), ...besides, ...texts]
}

/** A name and a tag have at most 80 characters each. */
const maxNameLength = 190

async function manifestAt(url: string, shown: string, { transport, signal }: LibraryContext) {
  const timeout = AbortSignal.timeout(answerMs)
  try {
    const headers = { accept: manifestType }
    const answer = await transport.fetch(url, { headers, signal: AbortSignal.any([signal, timeout]) })
    const problem = refusal(answer.status, answer.headers, shown, Date.now())
    if (problem) {
      await answer.body?.cancel()
      throw problem
    }
    const parsed = manifest.safeParse(parseJson(await textOf(answer, shown)))
    if (parsed.success) return parsed.data
    throw ModelError.untilRepairedThere(
      'BadAnswer',
      `${shown} answered with something other than the manifest of a model: check spec.source.`,
    )
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ModelError) throw error
    throw connectionError(error, shown)
  }
}

const textOf = async ({ body }: Response, shown: string): Promise<string> =>
  body === null ? '' : (await boundedBody(body, maxManifestBytes, () => tooLong(shown))).toString('utf8')

const tooLong = (shown: string): ModelError =>
  ModelError.untilRepairedThere('BadAnswer', `${shown} answered with more than a manifest can hold: check spec.source.`)
