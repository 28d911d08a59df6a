import { magicLength } from './content.ts'
import { Body } from './download/body.ts'
import { PaceGuard } from './download/pace-guard.ts'
import { discard, send } from './download/request.ts'
import type { Transport } from './download/transport.ts'
import { hasReason, type ModelErrorReason } from './errors.ts'
import { contentProblem, refusal } from './http-answer.ts'
import type { Manifest } from './manifest.ts'
import type { RemoteFile } from './remote-file.ts'
import { hubAddressIn, hubClient, resolveSource, type ResolveContext, type WantedModel } from './resolve-source.ts'
import { shownSource } from './source.ts'

/**
 * Asks the source with the login of the context whether it would give what was fetched of it, without fetching it: the files themselves, and
 * where they are gone or have changed the repository that they were in. An address that is not the Hub's is not asked: who knows it knows
 * all that opens it. Throws ModelError.
 */
export async function askAccess(
  wanted: WantedModel,
  { files: stored, revision }: Pick<Manifest, 'files' | 'revision'>,
  context: ResolveContext & { readonly transport: Transport },
): Promise<{ isPublic: boolean }> {
  try {
    const resolved = await resolveSource(wanted, context)
    if (resolved.kind === 'local') throw new Error(`${shownSource(wanted.source)} is on this machine.`)
    for (const file of resolved.files) if (file.isAtMirror === true) await requireFile(file, context)
    return { isPublic: resolved.files.every(({ isPublic }) => isPublic === true) }
  } catch (error) {
    const address = hubAddressIn(wanted.source, context.hubEndpoint)
    if (address === undefined || !hasReason(error, aboutFiles)) throw error
    const { repo, path = stored[0]?.path ?? '' } = address
    const { client, token } = await hubClient(wanted, context)
    const state = await client.requireRepository(repo, revision ?? address.revision ?? 'main', path)
    return { isPublic: state.isPublic ?? token === undefined }
  }
}

/** What the repository has by now is not what the Model means. */
const aboutFiles: readonly ModelErrorReason[] = [
  ...(['NoSuchFile', 'NoSuchRevision', 'ShardMissing', 'Ambiguous', 'UnsafeName', 'WrongChecksum'] as const),
]

/** A server that has a file begins to send it within this. */
const answerMs = 30_000

/** As its download will begin: some servers answer a question for the file's state to everybody, and others with a page to log in. */
async function requireFile(
  { url, credentials, fileName }: RemoteFile,
  { transport, signal }: { transport: Transport; signal: AbortSignal },
): Promise<void> {
  const shown = shownSource(url)
  using guard = new PaceGuard(answerMs, shown)
  const range = [0, magicLength] as const
  const answer = await send({ url, credentials, range }, { transport, signal, guard })
  const { status, headers, body } = answer
  try {
    const problem = refusal(status === 206 ? 200 : status, headers, shown, Date.now())
    if (problem) throw problem
    const start = await new Body(answer, undefined, guard, signal, shown).start(undefined)
    const other = contentProblem(fileName, start, headers.get('content-type'), shown)
    if (other) throw other
  } finally {
    discard(body)
  }
}
