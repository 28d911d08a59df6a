import { type ResolveContext, resolveSource } from '../../../../src/agent-core/models/resolve.ts'
import type { WantedModel } from '../../../../src/agent-core/models/selection.ts'
import { ModelError } from '../../../../src/agent-core/models/errors.ts'
import { silentLog } from '../../../support/silent-log.ts'
import type { FakeHub } from '../../../support/fake-hub.ts'

/** What the agent makes of a Model, asking this Hub. */
export const resolving =
  (hub: FakeHub, context: Partial<ResolveContext> = {}) =>
  async (wanted: WantedModel | string) =>
    resolveSource(typeof wanted === 'string' ? { source: wanted } : wanted, {
      transport: { fetch },
      hubEndpoint: hub.endpoint,
      signal: new AbortController().signal,
      log: silentLog,
      allowInsecureLoopback: true,
      ...context,
    })

export const givenToken = (value: string) => ({ token: () => Promise.resolve({ value, from: 'HF_TOKEN' }) })

/** Kind, reason and sentence of the refusal; the address of the Hub as HUB. */
export async function refusalOf(asked: Promise<unknown>, { endpoint }: FakeHub): Promise<unknown> {
  try {
    return await asked
  } catch (error) {
    if (!(error instanceof ModelError)) return error
    const message = error.message.replaceAll(endpoint, 'HUB').replaceAll(new URL(endpoint).host, 'HUB')
    return [error.kind, error.reason, message]
  }
}
