import type { ReactNode } from 'react'
import type { RuntimeFigures, ServiceView } from '../../contract/service.ts'
import { Banner } from '../components/banner.tsx'
import { Age } from '../components/time.tsx'
import { useSnapshot } from '../store.ts'
import { workWords } from '../words/services.ts'
import { Card, Facts } from './card.tsx'

/** How a server does its work, as far as its runtime tells. */
export function ServiceWork({ service: { uid, pid } }: { readonly service: ServiceView }) {
  const runtime = useSnapshot(({ figures }) => figures[uid]?.runtime)
  const watts = useSnapshot(({ figures }) => figures[uid]?.powerShareWatts)
  if (pid === undefined || runtime === undefined) return null
  return (
    <Card title={workWords.title}>
      {runtime.slow !== undefined && <Banner tone="warn">{runtime.slow}</Banner>}
      {runtime.state === 'notReported' ? (
        <p>{runtime.message ?? workWords.tellsNothing}</p>
      ) : (
        <Facts facts={factsOf(runtime)} />
      )}
      <Facts facts={[[workWords.power, workWords.powerShare(watts)]]} />
    </Card>
  )
}

function factsOf(runtime: RuntimeFigures): [name: string, value: ReactNode][] {
  const { lastRequestAt } = runtime
  return [
    [workWords.generation, workWords.rate(runtime.generatedTokensPerSecond)],
    [workWords.prompts, workWords.rate(runtime.promptTokensPerSecond)],
    [workWords.requests, workWords.requestCounts(runtime)],
    [workWords.kvUse, workWords.share(runtime.kvUse)],
    [
      workWords.lastRequest,
      lastRequestAt === undefined ? (
        workWords.unknown
      ) : (
        <>
          <Age since={lastRequestAt} /> {workWords.ago}
        </>
      ),
    ],
  ]
}
