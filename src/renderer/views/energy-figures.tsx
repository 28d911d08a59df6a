import { useState } from 'react'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import type { EnergyView } from '../../contract/power.ts'
import { classNames } from '../components/class-names.ts'
import { LongName } from '../components/long-name.tsx'
import { isSame, type EnergyTime, type ServiceName } from '../energy-time.ts'
import { energyWords } from '../words/energy.ts'
import { EnergyBars } from './energy-bars.tsx'
import { EnergyTable } from './energy-table.tsx'
import styles from './energy-figures.module.css'
import { Note } from './view-page.tsx'

interface EnergyFiguresProps {
  readonly view: EnergyView
  readonly time: EnergyTime
}

/** Total, bars, services and table of one time. */
export function EnergyFigures({ view, time }: EnergyFiguresProps) {
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
