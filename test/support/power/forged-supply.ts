import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'

/** Names the folder in place of the system's. */
export const suppliesVariable = 'METALBAR_TEST_POWER_SUPPLIES'

/**
 * A Linux that runs on what a test says, for a program of its own. Its battery does not say how full it is, so that the agent, which looks seldom
 * then, learns in time of a plug that is pulled only by being told.
 */
export async function forgedSupply(folder: string) {
  const supplies = path.join(folder, 'power_supply')
  const write = async (supply: string, content: Readonly<Record<string, string>>) => {
    await mkdir(path.join(supplies, supply), { recursive: true })
    for (const [name, text] of Object.entries(content)) await writeFile(path.join(supplies, supply, name), `${text}\n`)
  }
  const runOn = async (source: 'mains' | 'battery') => {
    await write('AC', { type: 'Mains', online: source === 'mains' ? '1' : '0' })
    await write('BAT0', { type: 'Battery', status: source === 'mains' ? 'Full' : 'Discharging' })
  }
  await runOn('mains')
  const preload = new URL('supply-files.ts', import.meta.url).href
  return { runOn, env: { NODE_OPTIONS: `--import=${preload}`, [suppliesVariable]: supplies } }
}
