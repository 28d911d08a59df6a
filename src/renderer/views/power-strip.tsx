import { isSupplyNews, supplyLine } from '../../contract/power.ts'
import { Sparkline } from '../components/sparkline.tsx'
import { trailLines, wattRange } from '../power-trail.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { powerWords } from '../words/services.ts'
import styles from './power-strip.module.css'
import { TurnOnPower } from './turn-on-power.tsx'

/** What this machine draws, or why that is not known. */
export function PowerStrip() {
  const power = useSnapshot((snapshot) => snapshot.power)
  const figures = useSnapshot((snapshot) => snapshot.powerFigures)
  const isMac = useSnapshot(({ host }) => host.platform === 'darwin')
  return (
    <section className={styles['power']} aria-label={powerWords.title}>
      <div className={styles['first']}>
        <span className={styles['title']}>{powerWords.title}</span>
        {figures === undefined ? (
          (power?.message ?? (isMac ? <Off /> : <span className={styles['off']}>{powerWords.notHere}</span>))
        ) : (
          <>
            <Trail />
            <strong className={styles['watts']}>{powerWords.combined(figures)}</strong>
            <span className={styles['parts']}>{powerWords.parts(figures)}</span>
          </>
        )}
        <Supply />
      </div>
    </section>
  )
}

/** What it runs on, where that matters. */
function Supply() {
  const supply = useSnapshot((snapshot) => snapshot.supply)
  return supply && isSupplyNews(supply) ? <span className={styles['parts']}>{supplyLine(supply)}</span> : undefined
}

/** In the units of the drawing, which is stretched to the room there is. */
const box = { width: 120, height: 20 }

function Trail() {
  const trail = useWindow((state) => state.powerTrail)
  return <Sparkline label={powerWords.trail(wattRange(trail))} lines={trailLines(trail, box)} box={box} />
}

const Off = () => (
  <>
    <span className={styles['off']}>{powerWords.off}</span>
    <TurnOnPower />
  </>
)
