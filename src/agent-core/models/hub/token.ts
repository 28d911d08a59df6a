import { isAbsolute, join } from 'node:path'
import { sentence } from '../../../contract/clean-text.ts'
import type { HubLoginView } from '../../../contract/models.ts'
import { readBounded } from '../../util/files.ts'
import { messageOf } from '../../util/message-of.ts'
import { ModelError } from '../errors.ts'
import { hubEndpoint } from './endpoint.ts'
import { keysOf, secretTitle, type SourceSecret, valueOf } from '../source-secret.ts'
import { ifThere } from '../store/files.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface HubToken {
  readonly value: string
  /** Where it comes from, for people: `HF_TOKEN`, `Secret ns/name`. */
  readonly from: string
}

/** Where the token of the person at this machine may be. */
export interface LoginSources {
  /** As the setting names it. */
  readonly hubTokenFile?: string | undefined
  /** Reads the token that the program which hosts the agent keeps. */
  readonly keptHubToken?: (() => Promise<string | undefined>) | undefined
  readonly env: Environment
  readonly home: string
}

export interface TokenSources extends LoginSources {
  /** Reads the token in the Model's `sourceSecretRef`; throws one of the errors below. Absent where the Model has none. */
  readonly secret?: (() => Promise<HubToken>) | undefined
}

/** As {@link HubToken.from} says them. */
const fromSetting = 'the setting hubTokenFile'
const fromApp = 'the settings of the app'

const tokenVariables = ['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN'] as const

/** The first there is: Secret, setting, what the app keeps, environment, the file that `hf auth login` writes. Throws ModelError where one is meant but cannot be used. */
export async function hubToken(sources: TokenSources): Promise<HubToken | undefined> {
  const { secret, hubTokenFile, keptHubToken, env, home } = sources
  if (secret !== undefined) return secret()
  if (hubTokenFile !== undefined) return usable({ value: await tokenInFile(hubTokenFile), from: fromSetting })
  const kept = (await keptToken(keptHubToken))?.trim() ?? ''
  if (kept !== '') return usable({ value: kept, from: fromApp })
  for (const name of tokenVariables) {
    const value = env[name]?.trim() ?? ''
    if (value !== '') return usable({ value, from: name })
  }
  const path = tokenFile(env, home)
  const text = await tokenText(path).catch((error: unknown) => {
    throw ModelError.untilRepairedHere(
      'FileUnreadable',
      `The Hub's token file ${path} cannot be read (${messageOf(error)}): change its permissions, or remove it.`,
      error,
    )
  })
  const value = text?.trim() ?? ''
  return value === '' ? undefined : usable({ value, from: path })
}

const maxShownBytes = 1_000

/** Where the token would come from now, for what a person at this machine fetches; the token itself goes nowhere. */
export async function hubLogin(sources: LoginSources): Promise<HubLoginView> {
  try {
    const { from } = (await hubToken(sources)) ?? {}
    if (from === undefined) return { tokenSource: 'none' }
    if (from === fromApp) return { tokenSource: 'keychain' }
    const file = from === fromSetting ? sources.hubTokenFile : isAbsolute(from) ? from : undefined
    return { tokenSource: file === undefined ? 'environment' : 'file', where: sentence(file ?? from, maxShownBytes) }
  } catch (error) {
    if (!(error instanceof ModelError)) throw error
    return { tokenSource: 'none', problem: sentence(error.message, maxShownBytes) }
  }
}

/** On a Secret: what stands under the key `token` is for the Hub, whatever it looks like. Many Secrets have such a key for something else. */
export const hubTokenLabel = 'metalbar.dev/hub-token'

/** The Hub's token in a Secret. Throws `SecretHasNoToken`. */
export function tokenOfSecret(secret: SourceSecret): HubToken {
  const token = tokenIn(secret)
  if (token !== undefined) return token
  throw ModelError.untilRepairedHere(
    'SecretHasNoToken',
    `${secretTitle(secret)}, which spec.sourceSecretRef names, has no Hugging Face token (${keysOf(secret)}): put one under the key HF_TOKEN.`,
  )
}

/**
 * The Hub that a Secret names with `HF_ENDPOINT`, and the token for that one alone: no other login is sent there. Undefined where it names none. Throws
 * ModelError.
 */
export function hubOfSecret(
  secret: SourceSecret,
): { readonly endpoint: string; readonly token: HubToken | undefined } | undefined {
  const stated = valueOf(secret, 'HF_ENDPOINT')
  if (stated === undefined) return undefined
  const hub = hubEndpoint({}, stated, `HF_ENDPOINT of ${secretTitle(secret)}`)
  if ('problem' in hub) throw ModelError.untilRepairedHere('BadAnswer', hub.problem)
  return { endpoint: hub.endpoint, token: tokenIn(secret) }
}

/** Undefined where there is none. Throws `SecretHasNoToken` where what there is may be meant for something else. */
function tokenIn(secret: SourceSecret): HubToken | undefined {
  const from = secretTitle(secret)
  for (const key of secretKeys) {
    const value = valueOf(secret, key)
    if (value === undefined) continue
    if (key === 'token' && secret.isForHub !== true && !value.startsWith('hf_')) {
      throw ModelError.untilRepairedHere(
        'SecretHasNoToken',
        `The key token of ${from}, which spec.sourceSecretRef names, holds a value that does not begin with hf_, so it is not sent to the Hub: put the Hub's token under the key HF_TOKEN, or label the Secret ${hubTokenLabel}=true.`,
      )
    }
    return usable({ value, from })
  }
  return undefined
}

/** Many times a token. */
const maxTokenFileBytes = 64 * 1024

/** Undefined where there is no such file. Throws where it is not a regular file, or far longer than a token. */
const tokenText = (path: string): Promise<string | undefined> =>
  ifThere(readBounded(path, maxTokenFileBytes)).then((bytes) => bytes?.toString())

/** The token in the file that the setting names. Throws ModelError where there is none. */
async function tokenInFile(file: string): Promise<string> {
  const text = await tokenText(file).catch((error: unknown) => {
    throw unusableToken(file, messageOf(error), error)
  })
  if (text === undefined || text.trim() === '')
    throw unusableToken(file, text === undefined ? 'it does not exist' : 'it is empty')
  return text.trim()
}

/** The token that the program which hosts the agent keeps. Throws ModelError where it has one and cannot read it. */
async function keptToken(read: (() => Promise<string | undefined>) | undefined): Promise<string | undefined> {
  try {
    return await read?.()
  } catch (error) {
    throw ModelError.untilRepairedHere(
      'FileUnreadable',
      `The Hub's token that the app keeps cannot be read (${messageOf(error)}): write it into the app's settings again, or remove it there.`,
      error,
    )
  }
}

const unusableToken = (file: string, why: string, cause?: unknown): ModelError =>
  ModelError.untilRepairedHere(
    'FileUnreadable',
    `The file ${file} of the setting hub-token-file cannot be read (${why}): put the Hub's token there, or remove the setting.`,
    cause,
  )

const secretKeys = [...tokenVariables, 'HUGGINGFACE_TOKEN', 'token'] as const

/** A line break or the like would end the header and begin another. */
function usable(token: HubToken): HubToken {
  if (/^[\x21-\x7e]{1,1000}$/.test(token.value)) return token
  throw ModelError.untilRepairedThere(
    'AccessDenied',
    `The Hugging Face token from ${token.from} is not valid: it has spaces or other characters that no token has, so replace it.`,
  )
}

function tokenFile(env: Environment, home: string): string {
  const given = env['HF_TOKEN_PATH'] ?? ''
  return isAbsolute(given) ? given : join(hubHome(env, home), 'token')
}

/** The folder of Hugging Face's tools: `HF_HOME`, else in the user's cache. */
export function hubHome(env: Environment, home: string): string {
  const given = env['HF_HOME'] ?? ''
  if (isAbsolute(given)) return given
  const cache = env['XDG_CACHE_HOME'] ?? ''
  return join(isAbsolute(cache) ? cache : join(home, '.cache'), 'huggingface')
}
