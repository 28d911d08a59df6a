import { isAbsolute } from 'node:path'
import { sentence } from '../../../contract/clean-text.ts'
import type { HubLoginView } from '../../../contract/hub-login.ts'
import { ModelError } from '../errors.ts'
import { hubToken, tokenInFile, type TokenSources } from './token.ts'

interface LoginSources extends Pick<TokenSources, 'env' | 'home'> {
  /** Of the setting. */
  readonly hubTokenFile: string | undefined
}

const maxBytes = 1_000

/** Where the token would come from now, for what a person at this machine fetches; the token itself goes nowhere. */
export async function hubLogin({ hubTokenFile, env, home }: LoginSources): Promise<HubLoginView> {
  try {
    if (hubTokenFile !== undefined) {
      const setting = await tokenInFile(hubTokenFile)
      await hubToken({ setting, env, home })
      return { tokenSource: 'file', where: sentence(hubTokenFile, maxBytes) }
    }
    const token = await hubToken({ env, home })
    if (token === undefined) return { tokenSource: 'none' }
    return { tokenSource: isAbsolute(token.from) ? 'file' : 'environment', where: sentence(token.from, maxBytes) }
  } catch (error) {
    if (!(error instanceof ModelError)) throw error
    return { tokenSource: 'none', problem: sentence(error.message, maxBytes) }
  }
}
