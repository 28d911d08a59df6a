import { execa } from 'execa'

const limitMs = 10_000

/** What this llama-server tells of the machine's devices, among it how much Metal recommends to keep in GPU memory at most. */
export async function devicesAsTold(llamaServer: string): Promise<string> {
  const { stdout, stderr } = await execa(llamaServer, ['--list-devices'], {
    stdin: 'ignore',
    extendEnv: false,
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' },
    reject: false,
    timeout: limitMs,
  })
  return `${stdout}\n${stderr}`
}
