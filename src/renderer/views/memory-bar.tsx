import { Button as AriaButton } from 'react-aria-components/Button'
import { Toolbar } from 'react-aria-components/Toolbar'
import { formatBytes } from '../../contract/format.ts'
import type { MemoryStateView } from '../../contract/memory.ts'
import { classNames } from '../components/text.tsx'
import { ErrorGlyph, LinkGlyph, StateGlyph, WarningGlyph } from '../components/glyph.tsx'
import { memoryShares, type MemoryShares, type ModelShare } from '../gauges.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { memoryWords } from '../words/services.ts'
import styles from './memory-bar.module.css'

/** What models and other applications hold of this machine's memory. A model's segment opens its service. */
export function MemoryBar() {
  const memory = useSnapshot((snapshot) => snapshot.memory)
  const memoryFigures = useSnapshot((snapshot) => snapshot.memoryFigures)
  const services = useSnapshot((snapshot) => snapshot.services)
  const figures = useSnapshot((snapshot) => snapshot.figures)
  const shares = memoryShares(memory, memoryFigures, { services, figures })
  return (
    <section className={styles['memory']} aria-label={memoryWords.title}>
      <p className={styles['first']}>
        <span className={styles['title']}>{memoryWords.title}</span>
        <span className={styles['figures']}>{memoryWords.models(memory)}</span>
        {memory !== undefined && <Pressure memory={memory} />}
      </p>
      {memory !== undefined && shares !== undefined && (
        <>
          <Bar shares={shares} memory={memory} />
          <Legend shares={shares} memory={memory} freeBytes={memoryFigures?.freeBytes} />
        </>
      )}
      {memory?.problem !== undefined && <p className={styles['problem']}>{memory.problem}</p>}
    </section>
  )
}

function Pressure({ memory: { pressure } }: { readonly memory: MemoryStateView }) {
  return (
    <span className={styles['pressure']} data-level={pressure}>
      {pressureGlyphs[pressure]}
      {memoryWords.pressure[pressure]}
    </span>
  )
}

const pressureGlyphs = {
  normal: <LinkGlyph link="live" />,
  warning: <WarningGlyph />,
  critical: <ErrorGlyph />,
  unknown: null,
}

interface BarProps {
  readonly shares: MemoryShares
  readonly memory: MemoryStateView
}

function Bar({ shares, memory: { budgetBytes, gpuLimitBytes } }: BarProps) {
  const { totalBytes, models, otherBytes } = shares
  const percent = (bytes: number) => `${Math.min(100, (100 * bytes) / totalBytes).toFixed(2)}%`
  return (
    <div className={styles['scale']}>
      <div className={styles['bar']} data-chart>
        {models.length > 0 && (
          <Toolbar aria-label={memoryWords.modelsInMemory} className={classNames(styles['models'])}>
            {models.map((share) => (
              <Segment key={share.uid} share={share} width={percent((share.bytes ?? 0) + share.promisedBytes)} />
            ))}
          </Toolbar>
        )}
        {otherBytes !== undefined && <span className={styles['other']} style={{ flexBasis: percent(otherBytes) }} />}
      </div>
      {budgetBytes !== undefined && budgetBytes < totalBytes && (
        <span className={styles['budget']} style={{ insetInlineStart: percent(budgetBytes) }} />
      )}
      {gpuLimitBytes !== undefined && gpuLimitBytes < totalBytes && (
        <span className={styles['gpuLimit']} style={{ insetInlineStart: percent(gpuLimitBytes) }} />
      )}
    </div>
  )
}

function Segment({ share, width }: { readonly share: ModelShare; readonly width: string }) {
  const select = useWindow((state) => state.select)
  return (
    <AriaButton
      className={classNames(styles['segment'])}
      data-state={share.state}
      style={{ flexBasis: width }}
      aria-label={memoryWords.segment(share)}
      onPress={() => select(share.uid)}
    >
      <StateGlyph state={share.state} />
    </AriaButton>
  )
}

interface LegendProps extends BarProps {
  readonly freeBytes: number | undefined
}

function Legend({ shares, memory: { budgetBytes, gpuLimitBytes, waiting }, freeBytes }: LegendProps) {
  return (
    <ul className={styles['legend']}>
      <li>
        <span className={classNames(styles['key'], styles['otherKey'])} />
        {memoryWords.other} {memoryWords.size(shares.otherBytes)}
      </li>
      <li>
        <span className={classNames(styles['key'], styles['freeKey'])} />
        {memoryWords.free} {memoryWords.size(freeBytes)}
      </li>
      <li>
        <span className={classNames(styles['key'], styles['budgetKey'])} />
        {memoryWords.budget} {memoryWords.size(budgetBytes)}
      </li>
      {gpuLimitBytes !== undefined && (
        <li>
          <span className={classNames(styles['key'], styles['gpuLimitKey'])} />
          {memoryWords.gpuLimit} {formatBytes(gpuLimitBytes)}
        </li>
      )}
      {waiting.length > 0 && <li>{memoryWords.waiting(waiting.length)}</li>}
    </ul>
  )
}
