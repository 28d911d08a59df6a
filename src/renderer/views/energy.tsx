import { useState } from 'react'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import type { EnergySpan, EnergyView } from '../../contract/power.ts'
import { Folded, Note } from '../components/blocks.tsx'
import { Choice } from '../components/fields.tsx'
import { classNames, LongName, Sentence } from '../components/text.tsx'
import { energyBars, energyQuery, type EnergyTime, energyTimes, isSame, type ServiceName } from '../energy-time.ts'
import { useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { energyWords } from '../words/activity.ts'
import { TurnOnPower } from './power-strip.tsx'
import styles from './energy.module.css'

const minuteMs = 60_000

/** What this machine and each service drew, by the hour or day. */
export function Energy() {
  const [time, setTime] = useState<EnergyTime>('week')
  return (
    <section className={styles['energy']} aria-labelledby="energy">
      <div className={styles['first']}>
        <h3 id="energy" className={styles['title']}>
          {energyWords.title}
        </h3>
        <Choice
          label={energyWords.time}
          options={energyTimes}
          words={energyWords.times}
          value={time}
          onChange={setTime}
        />
      </div>
      <PowerOff />
      {/* Anew for each: figures of one time are never shown as those of another. */}
      <OfTime key={time} time={time} />
    </section>
  )
}

/** What there is to turn on; nothing where power is on. */
function PowerOff() {
  const isOff = useSnapshot(({ power }) => power === undefined)
  const isMac = useSnapshot(({ host }) => host.platform === 'darwin')
  if (!isOff) return null
  if (!isMac) return <Note>{energyWords.notHere}</Note>
  return (
    <div className={styles['off']}>
      <p>{energyWords.notMeasured}</p>
      <TurnOnPower />
    </div>
  )
}

/** Renewed each minute in which the agent says something; while it says nothing, nothing is drawn that it could count. */
function OfTime({ time }: { readonly time: EnergyTime }) {
  const minute = useSnapshot(({ now }) => Math.floor(Date.parse(now) / minuteMs))
  const state = useSnapshot(({ power }) => power?.state)
  // The price is one of them.
  const settings = useSnapshot((snapshot) => snapshot.settingsRevision)
  const now = minute * minuteMs
  const utcOffsetMinutes = -new Date(now).getTimezoneOffset()
  const { answer, problem } = useAnswer(energyQuery(time, { now, utcOffsetMinutes }), [minute, state, settings])
  return (
    <>
      <Note>{problem}</Note>
      {answer !== undefined && <EnergyFigures view={answer} time={time} />}
      {answer !== undefined && state !== undefined && (
        <Note>
          <Sentence text={answer.message} />
        </Note>
      )}
    </>
  )
}

interface EnergyFiguresProps {
  readonly view: EnergyView
  readonly time: EnergyTime
}

/** Total, bars, services and table of one time. */
function EnergyFigures({ view, time }: EnergyFiguresProps) {
  const [chosen, setChosen] = useState<ServiceName>()
  const { services, spans = [] } = view
  if (view.from === undefined) return <Note>{energyWords.nothing}</Note>
  const isMeasured = view.joules !== undefined
  return (
    <div className={styles['figures']}>
      <p>
        <strong className={styles['total']}>{energyWords.total(view)}</strong>{' '}
        {isMeasured && <span className={styles['of']}>{energyWords.of}</span>}
      </p>
      <p className={styles['note']}>{energyWords.coverage(view)}</p>
      {isMeasured && <EnergyBars spans={spans} time={time} chosen={chosen} services={services} />}
      {services.length > 0 && <Services view={view} chosen={chosen} onChoose={setChosen} />}
      {isMeasured && services.length > 0 && <p className={styles['note']}>{energyWords.estimate}</p>}
      {spans.length > 0 && <EnergyTable view={view} time={time} />}
    </div>
  )
}

interface ServicesProps {
  readonly view: EnergyView
  readonly chosen: ServiceName | undefined
  readonly onChoose: (service: ServiceName | undefined) => void
}

/** The largest first. Where there are bars, a press shows one service in them. */
function Services({ view, chosen, onChoose }: ServicesProps) {
  const { services, joules } = view
  return (
    <ul className={styles['services']} aria-label={energyWords.services}>
      {services.map((service) => {
        const name = energyWords.service(service, services)
        const isChosen = isSame(service, chosen)
        return (
          <li key={`${service.namespace}/${service.name}`} className={styles['service']}>
            <div className={styles['line']}>
              {joules === undefined ? (
                <LongName name={name} />
              ) : (
                <ToggleButton
                  className={classNames(styles['name'])}
                  isSelected={isChosen}
                  onChange={(isOn) => onChoose(isOn ? service : undefined)}
                  aria-label={energyWords.choose(name)}
                >
                  <LongName name={name} />
                </ToggleButton>
              )}
              <span className={styles['amount']}>{energyWords.share(service, view)}</span>
            </div>
            <p className={styles['note']}>{energyWords.tokens(service, view)}</p>
          </li>
        )
      })}
      {view.ownJoules !== undefined && (
        <li className={styles['service']}>
          <div className={styles['line']}>
            <span className={styles['own']}>{energyWords.own}</span>
            <span className={styles['amount']}>{energyWords.ownShare(view)}</span>
          </div>
        </li>
      )}
    </ul>
  )
}

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

/** Energy of each hour or day; colour and a pattern set the part of the services apart from the rest. */
function EnergyBars({ spans, time, chosen, services }: EnergyBarsProps) {
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

interface EnergyTableProps {
  readonly view: EnergyView
  readonly time: EnergyTime
}

/** Every figure of the bars, for those who want or need to read them. */
function EnergyTable({ view, time }: EnergyTableProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <Folded title={energyWords.table} onToggle={setOpen}>
      {isOpen && <Rows view={view} time={time} />}
    </Folded>
  )
}

function Rows({ view: { spans = [], services, currency }, time }: EnergyTableProps) {
  const [first, ...others] = energyWords.columns(time)
  return (
    <table className={styles['table']}>
      <thead>
        <tr>
          {[first, ...others].map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      {spans
        .filter(({ joules, services: counted }) => joules !== undefined || counted.length > 0)
        .map((span) => (
          <tbody key={span.from}>
            <tr>
              <th scope="rowgroup" rowSpan={span.services.length + 1}>
                {energyWords.spanName(span.from, time)}
              </th>
              <td>{energyWords.everything}</td>
              <td>{energyWords.cell(span, currency)}</td>
            </tr>
            {span.services.map((service) => (
              <tr key={`${service.namespace}/${service.name}`}>
                <td>{energyWords.service(service, services)}</td>
                <td>{energyWords.serviceCell(service, span, currency)}</td>
              </tr>
            ))}
          </tbody>
        ))}
    </table>
  )
}
