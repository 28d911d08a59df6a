import { isAbsolute } from 'node:path'
import { sentence } from '../../../contract/clean-text.ts'
import type { HubLoginView } from '../../../contract/models.ts'
import { ModelError } from '../errors.ts'
import { hubToken, keptToken, keptTokenFrom, tokenInFile, type TokenSources } from './token.ts'

export interface LoginSources extends Pick<TokenSources, 'env' | 'home'> {
  /** Of the setting. */
  readonly hubTokenFile: string | undefined
  /** Of the program that hosts the agent. */
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
