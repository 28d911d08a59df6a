import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

const root = path.join(import.meta.dirname, '..')

/** What `src/agent-core/agent/build-info.ts` is told by a build. */
export function buildDefines(): Record<string, string> {
  return {
    METAL_AGENT_VERSION: JSON.stringify(packageVersion()),
    METAL_AGENT_COMMIT: JSON.stringify(commit()),
    METAL_AGENT_BUILD_DATE: JSON.stringify(buildDate().toISOString()),
  }
}

export function packageVersion(): string {
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(`${root}/package.json`, 'utf8'))).version
}

/** The same for every build of one source where SOURCE_DATE_EPOCH (seconds) is set. */
function buildDate(): Date {
  const epoch = process.env['SOURCE_DATE_EPOCH']
  if (epoch === undefined) return new Date()
  if (!/^\d+$/.test(epoch))
    throw new Error(`SOURCE_DATE_EPOCH must be whole seconds since 1970, not ${JSON.stringify(epoch)}.`)
  return new Date(Number(epoch) * 1_000)
}

/** A source archive has no git history. */
function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return 'unknown'
  }
}
