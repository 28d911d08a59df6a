import type { EnergySpan } from '../../contract/power.ts'
import { energyBars, type EnergyTime, type ServiceName } from '../energy-time.ts'
import { energyWords } from '../words/energy.ts'
import { classNames } from '../components/class-names.ts'
import styles from './energy-bars.module.css'

interface EnergyBarsProps {
  readonly spans: readonly EnergySpan[]
  readonly time: EnergyTime
  /** Whose part is drawn; absent = that of all services. */
  readonly chosen: ServiceName | undefined
  readonly services: readonly ServiceName[]
}

/** In the units of the drawing, which is stretched to the room there is. */
const slot = 10
const gap = 2
const height = 100
/** What was measured is seen, however little it was. */
const leastHeight = 2

const restPattern = 'energy-rest'
/** Level, since the drawing is stretched sideways. */
const restLine = 2

/** Energy of each hour or day; the part of the services is told from the rest by colour and by a pattern of the rest. */
export function EnergyBars({ spans, time, chosen, services }: EnergyBarsProps) {
  const bars = energyBars(spans, chosen)
  const name = chosen && energyWords.service(chosen, services)
  return (
    <div className={styles['chart']}>
      <p className={styles['top']}>{energyWords.top(spans)}</p>
      <svg
        role="img"
        aria-label={energyWords.bars(time, spans)}
        className={styles['bars']}
        viewBox={`0 0 ${slot * bars.length} ${height}`}
        preserveAspectRatio="none"
      >
        <pattern id={restPattern} width={slot} height={restLine * 3} patternUnits="userSpaceOnUse">
          <path className={styles['hatch']} d={`M0 0H${slot}V${restLine}H0Z`} />
        </pattern>
        {bars.map(({ span, all, part }, index) => (
          <g key={span.from}>
            <title>{energyWords.bar(span, time)}</title>
            {all !== undefined && (
              <>
                <Bar
                  className={styles['all']}
                  fill={`url(#${restPattern})`}
                  index={index}
                  size={Math.max(leastHeight, all * height)}
                />
                <Bar className={styles['part']} index={index} size={part * height} />
              </>
            )}
          </g>
        ))}
      </svg>
      <Ticks spans={spans} time={time} />
      <ul className={styles['legend']}>
        <li>
          <span className={classNames(styles['key'], styles['partKey'])} />
          {energyWords.parts(name)}
        </li>
        <li>
          <span className={classNames(styles['key'], styles['allKey'])} />
          {energyWords.rest}
        </li>
      </ul>
    </div>
  )
}

interface BarProps {
  readonly className: string | undefined
  readonly fill?: string
  readonly index: number
  readonly size: number
}

const Bar = ({ className, fill, index, size }: BarProps) => (
  <rect
    {...(className !== undefined && { className })}
    {...(fill !== undefined && { fill })}
    x={index * slot + gap / 2}
    width={slot - gap}
    y={height - size}
    height={size}
  />
)

/** More than a week of names does not fit below the bars. */
const mostTicks = 7
const fewTicks = 4

function Ticks({ spans, time }: Pick<EnergyBarsProps, 'spans' | 'time'>) {
  const each = spans.length <= mostTicks ? 1 : Math.ceil(spans.length / fewTicks)
  return (
    <div className={styles['ticks']} aria-hidden="true" style={{ gridTemplateColumns: `repeat(${spans.length}, 1fr)` }}>
      {spans.map(({ from }, index) =>
        index % each === 0 ? (
          <span
            key={from}
            data-alone={each === 1}
            style={{ gridColumn: `${index + 1} / span ${Math.min(each, spans.length - index)}` }}
          >
            {energyWords.tick(from, time)}
          </span>
        ) : null,
      )}
    </div>
  )
}
