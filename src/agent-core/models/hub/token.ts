import { isAbsolute, join } from 'node:path'
import { sentence } from '../../../contract/clean-text.ts'
import type { HubLoginView } from '../../../contract/models.ts'
import { readIfThere } from '../../util/files.ts'
import { messageOf } from '../../util/message-of.ts'
import { localRepairMs, ModelError, remoteRepairMs } from '../errors.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface HubToken {
  readonly value: string
  /** Where it comes from, for people: `HF_TOKEN`, `Secret ns/name`. */
  readonly from: string
}

export interface TokenSources {
  /** Reads the token in the Model's `sourceSecretRef`; throws one of the errors below. Absent where the Model has none. */
  readonly secret?: (() => Promise<HubToken>) | undefined
  /** What stands in the file that the setting names. */
  readonly setting?: string | undefined
  /** The token of the person at this machine, kept by the program that hosts the agent. */
  readonly kept?: string | undefined
  readonly env: Environment
  readonly home: string
}

/** As {@link HubToken.from} says it. */
export const keptTokenFrom = 'the settings of the app'

/** The first there is: Secret, setting, what the app keeps, environment, the file that `hf auth login` writes. Throws ModelError where one is meant but cannot be used. */
export async function hubToken({ secret, setting, kept, env, home }: TokenSources): Promise<HubToken | undefined> {
  if (secret !== undefined) return secret()
  const stated = [
    ['the setting hubTokenFile', setting],
    [keptTokenFrom, kept],
    ...tokenVariables.map((name) => [name, env[name]] as const),
  ] as const
  for (const [from, value = ''] of stated) {
    if (value.trim() !== '') return usable({ value: value.trim(), from })
  }
  const path = tokenFile(env, home)
  const text = await readIfThere(path).catch((error: unknown) => {
    throw new ModelError(
      'transient',
      'FileUnreadable',
      `The Hub's token file ${path} cannot be read (${messageOf(error)}): change its permissions, or remove it.`,
      { cause: error, retryAfterMs: localRepairMs },
    )
  })
  const value = text?.trim() ?? ''
  return value === '' ? undefined : usable({ value, from: path })
}

/** On a Secret: what stands under the key `token` is for the Hub, whatever it looks like. Many Secrets have such a key for something else. */
export const hubTokenLabel = 'metalbar.dev/hub-token'

export interface SecretFacts {
  readonly namespace: string
  readonly name: string
  /** It has the label {@link hubTokenLabel}. */
  readonly isForHub?: boolean
}

/** The token among a Secret's decoded data. Throws `SecretHasNoToken`. */
export function tokenOfSecret(
  { namespace, name, isForHub = false }: SecretFacts,
  data: Readonly<Record<string, string>>,
): HubToken {
  const from = `Secret ${namespace}/${name}`
  for (const key of secretKeys) {
    const value = data[key]?.trim() ?? ''
    if (value === '') continue
    if (key === 'token' && !isForHub && !value.startsWith('hf_')) {
      throw new ModelError(
        'transient',
        'SecretHasNoToken',
        `What ${from}, which spec.sourceSecretRef names, has under the key token does not begin with hf_, so it is not sent to the Hub: put the Hub's token under the key HF_TOKEN, or label the Secret ${hubTokenLabel}=true.`,
        { retryAfterMs: localRepairMs },
      )
    }
    return usable({ value, from })
  }
  const found = Object.keys(data).sort()
  throw new ModelError(
    'transient',
    'SecretHasNoToken',
    `${from}, which spec.sourceSecretRef names, has no Hugging Face token (${found.length === 0 ? 'it is empty' : `its keys: ${found.slice(0, 10).join(', ')}`}): put one under the key HF_TOKEN.`,
    { retryAfterMs: localRepairMs },
  )
}

export function secretMissing(namespace: string, name: string): ModelError {
  return new ModelError(
    'transient',
    'SecretMissing',
    `Secret ${namespace}/${name}, which spec.sourceSecretRef names, does not exist: create it with the key HF_TOKEN, or remove sourceSecretRef.`,
    { retryAfterMs: localRepairMs },
  )
}

/** `why` completes "… cannot be read (…)". */
export function secretUnreadable(namespace: string, name: string, why: string, cause?: unknown): ModelError {
  return new ModelError(
    'transient',
    'SecretUnreadable',
    `Secret ${namespace}/${name}, which spec.sourceSecretRef names, cannot be read (${why}): allow this agent to get Secrets in ${namespace}, or remove sourceSecretRef.`,
    { cause, retryAfterMs: localRepairMs },
  )
}

/** The token in the file that the setting names. Throws ModelError where there is none. */
export async function tokenInFile(file: string): Promise<string> {
  const text = await readIfThere(file).catch((error: unknown) => {
    throw unusableToken(file, messageOf(error), error)
  })
  if (text === undefined || text.trim() === '')
    throw unusableToken(file, text === undefined ? 'it does not exist' : 'it is empty')
  return text.trim()
}

/** The token that the program which hosts the agent keeps. Throws ModelError where it has one and cannot read it. */
export async function keptToken(read: (() => Promise<string | undefined>) | undefined): Promise<string | undefined> {
  try {
    return await read?.()
  } catch (error) {
    throw new ModelError(
      'transient',
      'FileUnreadable',
      `The Hub's token that the app keeps cannot be read (${messageOf(error)}): write it into the app's settings again, or remove it there.`,
      { cause: error, retryAfterMs: localRepairMs },
    )
  }
}

const unusableToken = (file: string, why: string, cause?: unknown): ModelError =>
  new ModelError(
    'transient',
    'FileUnreadable',
    `The file ${file} of the setting hub-token-file cannot be read (${why}): put the Hub's token there, or remove the setting.`,
    { cause, retryAfterMs: localRepairMs },
  )

const tokenVariables = ['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN'] as const

const secretKeys = [...tokenVariables, 'HUGGINGFACE_TOKEN', 'token'] as const

/** A line break or the like would end the header and begin another. */
function usable(token: HubToken): HubToken {
  if (/^[\x21-\x7e]{1,1000}$/.test(token.value)) return token
  throw new ModelError(
    'transient',
    'AccessDenied',
    `The Hugging Face token from ${token.from} is not one: it has spaces or characters that no token has, so replace it.`,
    { retryAfterMs: remoteRepairMs },
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

export interface LoginSources extends Pick<TokenSources, 'env' | 'home'> {
  /** As the setting names it. */
  readonly hubTokenFile: string | undefined
  /** Reads the token that the program which hosts the agent keeps. */
  readonly keptHubToken?: (() => Promise<string | undefined>) | undefined
}

const maxBytes = 1_000

/** Where the token would come from now, for what a person at this machine fetches; the token itself goes nowhere. */
export async function hubLogin({ hubTokenFile, keptHubToken, env, home }: LoginSources): Promise<HubLoginView> {
  try {
    if (hubTokenFile !== undefined) {
      const setting = await tokenInFile(hubTokenFile)
      await hubToken({ setting, env, home })
      return { tokenSource: 'file', where: sentence(hubTokenFile, maxBytes) }
    }
    const token = await hubToken({ kept: await keptToken(keptHubToken), env, home })
    if (token === undefined) return { tokenSource: 'none' }
    if (token.from === keptTokenFrom) return { tokenSource: 'keychain' }
    return { tokenSource: isAbsolute(token.from) ? 'file' : 'environment', where: sentence(token.from, maxBytes) }
  } catch (error) {
    if (!(error instanceof ModelError)) throw error
    return { tokenSource: 'none', problem: sentence(error.message, maxBytes) }
  }
}
