import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentMetrics } from '../../src/agent-core/observability/agent-metrics.ts'
import { startMetricsListener } from '../../src/agent-core/observability/metrics-listener.ts'
import { httpPaths } from '../../src/contract/http.ts'
import { silentLog } from '../support/silent-log.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const token = 'a-token-that-a-cluster-has'

test('at the address for Prometheus there is no page, health or command, and no figure without the token', async () => {
  await using folder = await temporaryFolder()
  const tokenFile = join(folder.dir, 'token')
  await writeFile(tokenFile, token, { mode: 0o600 })
  using metrics = new AgentMetrics()
  const address = { host: '127.0.0.1', port: 0 }
  const listener = await startMetricsListener({ address, tokenFile, metrics, log: silentLog })
  try {
    const ask = async (path: string, init: RequestInit) => {
      const answer = await fetch(`http://127.0.0.1:${listener.port}${path}`, init)
      return {
        status: answer.status,
        opens: answer.headers.get('access-control-allow-origin'),
        text: await answer.text(),
      }
    }
    const headers = { authorization: `Bearer ${token}` }
    for (const path of ['/', '/index.html', '/healthz', '/readyz', ...Object.values(httpPaths)]) {
      for (const method of ['GET', 'POST', 'OPTIONS']) {
        expect([path, method, await ask(path, { method, headers })]).toEqual([
          path,
          method,
          { status: 404, opens: null, text: '{"error":"This server answers /metrics only."}\n' },
        ])
      }
    }
    // Before it sends a token a page has its browser ask whether it may.
    const preflight = { origin: 'https://evil.example', 'access-control-request-headers': 'authorization' }
    expect(await ask('/metrics', { method: 'OPTIONS', headers: preflight })).toMatchObject({ status: 405, opens: null })
    const refused = await ask('/metrics', {})
    expect(refused).toMatchObject({ status: 401, opens: null })
    expect(refused.text).not.toContain('llmkube')
    expect(await ask('/metrics', { headers })).toMatchObject({ status: 200, opens: null })
  } finally {
    await listener.stop()
  }
})
