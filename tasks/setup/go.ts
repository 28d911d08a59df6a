import { tmpdir } from 'node:os'
import { execa } from 'execa'
import { onPath } from './tools.ts'

/** What this machine lacks to build a Go program; `instead` is what a person may do without Go. */
export async function missingGo(least: string, instead: string): Promise<string | undefined> {
  const advice = `Go ${least} or newer is needed to build it: get it from https://go.dev/dl/, or ${instead}`
  const go = onPath('go')
  if (go === undefined) return advice
  // Asked outside of any module, whose go.mod could name another Go that is fetched first.
  const { stdout } = await execa(go, ['env', 'GOVERSION'], { cwd: tmpdir(), reject: false })
  const [, found] = /^go(\d+\.\d+)/.exec(stdout) ?? []
  const newEnough = found !== undefined && found.localeCompare(least, 'en', { numeric: true }) >= 0
  return newEnough ? undefined : `${advice}; this machine has ${stdout === '' ? 'an older one' : stdout}`
}
