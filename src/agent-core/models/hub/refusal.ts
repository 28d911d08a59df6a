import { ModelError, remoteRepairMs } from '../errors.ts'
import { refusal } from '../http-answer.ts'
import type { HubToken } from './token.ts'

/** The request to the Hub, for the sentence that says why it was refused. */
export interface HubQuestion {
  readonly endpoint: string
  readonly repo: string
  readonly revision?: string | undefined
  readonly path?: string | undefined
  /** The token that the request carried. */
  readonly sent: HubToken | undefined
  /** Set where there is a token that this endpoint may not see. */
  readonly withheld?: HubToken | undefined
  /** Set where a Model of this namespace asks, to which this machine's login is not lent. */
  readonly namespace?: string | undefined
}

/** What an answer of the Hub that is not a success means; undefined = go on. Codes: `X-Error-Code` as huggingface_hub knows them. */
export function hubRefusal(
  status: number,
  headers: Headers,
  question: HubQuestion,
  now: number,
): ModelError | undefined {
  if (status < 400) return undefined
  const { endpoint, repo, revision = 'main', path, sent, withheld, namespace } = question
  const page = `${endpoint}/${repo}`
  const hub = new URL(endpoint).host
  const giveToken =
    withheld === undefined
      ? namespace === undefined
        ? 'put a token into the Secret of spec.sourceSecretRef, the setting hubTokenFile or HF_TOKEN'
        : `put a token into the Secret of spec.sourceSecretRef, or lend namespace ${namespace} this machine's login with --hub-login-namespaces ${namespace}`
      : `the token from ${withheld.from} was not sent because ${hub} is not asked over https, so set HF_ENDPOINT to an https:// address`
  switch (headers.get('x-error-code') ?? '') {
    case 'GatedRepo':
      return slow(
        'AccessDenied',
        sent === undefined
          ? `${repo} is gated: accept its licence at ${page} and ${giveToken}.`
          : `${repo} is gated and the account of the token from ${sent.from} has no access: accept its licence at ${page} with that account, or give another token.`,
      )
    case 'RepoNotFound':
      return slow(
        'NotFound',
        sent === undefined
          ? `${hub} has no public repository ${repo}: correct spec.source, or if it is private ${giveToken}.`
          : `${hub} has no repository ${repo} that the token from ${sent.from} may see: correct spec.source, or give a token of an account with access.`,
      )
    case 'RevisionNotFound':
      return slow(
        'NoSuchRevision',
        `${repo} has no revision ${revision}: correct what stands behind the @ in spec.source.`,
      )
    case 'EntryNotFound':
      return slow('NoSuchFile', `${repo} has no file ${path ?? ''} at ${revision}: see ${page}/tree/${revision}.`)
    case 'DisabledRepo':
      return slow('AccessDenied', `${hub} has disabled the repository ${repo}: see ${page} and give another source.`)
  }
  if (status === 401 || status === 403) {
    return slow(
      'AccessDenied',
      sent === undefined
        ? `${hub} answered ${status} for ${repo}: it needs a token, so ${giveToken}.`
        : `${hub} does not accept the Hugging Face token from ${sent.from} for ${repo} (${status}): it is wrong, expired or lacks the right to read, so replace it.`,
    )
  }
  if (status === 404 || status === 405 || status === 501) {
    return slow(
      'NoHubApi',
      `${endpoint} does not answer as a Hugging Face Hub does (${status} for ${repo}): correct HF_ENDPOINT, or give the file's own https:// address.`,
    )
  }
  return refusal(status, headers, path === undefined ? page : `${page}/${path}`, now)
}

function slow(
  reason: 'AccessDenied' | 'NotFound' | 'NoSuchFile' | 'NoSuchRevision' | 'NoHubApi',
  message: string,
): ModelError {
  return new ModelError('transient', reason, message, { retryAfterMs: remoteRepairMs })
}
