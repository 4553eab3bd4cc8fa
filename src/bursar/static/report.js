// Tooltips: the values of all curves at the pointer. Without JavaScript only these are missing.
(function () {
  var tip = document.createElement('div');
  tip.id = 'tip';
  document.body.appendChild(tip);

  function writeTime(ms) {
    var seconds = ms / 1000;
    var units = [[86400, 'd'], [3600, 'h'], [60, 'min']];
    for (var i = 0; i < 3; i++) {
      if (seconds >= units[i][0]) return (seconds / units[i][0]).toFixed(1) + ' ' + units[i][1];
    }
    return seconds.toFixed(0) + ' s';
  }

  function write(value, form) {
    if (form === 'time') return writeTime(value);
    if (form === 'percent') return (100 * value).toFixed(1) + ' %';
    var text = value >= 100 ? Math.round(value).toLocaleString('en') : value.toFixed(1);
    return form === 'dollars' ? '$' + text : text;
  }

  // The y coordinate of a step curve at x; null where the curve has not begun or has ended.
  function height(d, x) {
    var steps = /([MHV])([-\d.]+)(?: ([-\d.]+))?/g;
    var y = null, step;
    while ((step = steps.exec(d))) {
      if (step[1] === 'M') {
        y = +step[3];
        if (x < +step[2]) return null;
      } else if (step[1] === 'H') {
        if (x <= +step[2]) return y;
      } else {
        y = +step[2];
      }
    }
    return null;
  }

  function row(name, value) {
    var line = document.createElement('div');
    var label = document.createElement('span');
    var figure = document.createElement('b');
    label.textContent = name;
    figure.textContent = value;
    line.append(label, figure);
    return line;
  }

  document.querySelectorAll('svg[data-x]').forEach(function (svg) {
    var xAxis = svg.dataset.x.split(' '); // high, form, scale
    var yAxis = svg.dataset.y.split(' '); // high, form
    var box = svg.dataset.box.split(' ').map(Number); // left, top, width, height
    var cross = svg.querySelector('.cross');
    var paths = [].slice.call(svg.querySelectorAll('path[data-name]'));

    function hide() {
      tip.style.display = 'none';
      cross.textContent = '';
    }

    function fill(x) {
      var part = (x - box[0]) / box[2];
      var at = xAxis[2] === 'log'
        ? 1000 * Math.expm1(part * Math.log1p(xAxis[0] / 1000))
        : part * xAxis[0];
      var below = 0;
      tip.textContent = '';
      tip.appendChild(row(write(at, xAxis[1]), ''));
      paths.forEach(function (path) {
        var y = height(path.getAttribute('d'), x);
        if (y === null) return;
        var value = yAxis[0] * (1 - (y - box[1]) / box[3]);
        if (path.dataset.stacked) {
          var own = value - below;
          below = value;
          value = Math.max(0, own);
        }
        tip.appendChild(row(path.dataset.name, write(value, yAxis[1])));
      });
    }

    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('pointermove', function (event) {
      var shown = svg.getBoundingClientRect();
      var scale = svg.viewBox.baseVal.width / shown.width;
      var x = (event.clientX - shown.left) * scale;
      if (x < box[0] || x > box[0] + box[2]) return hide();
      fill(x);
      var line = document.createElementNS(svg.namespaceURI, 'path');
      line.setAttribute('d', 'M' + x + ' ' + box[1] + 'v' + box[3]);
      cross.textContent = '';
      cross.appendChild(line);
      tip.style.display = 'block';
      tip.style.left = Math.max(4, Math.min(innerWidth - tip.offsetWidth - 8, event.clientX + 14)) + 'px';
      tip.style.top = Math.min(innerHeight - tip.offsetHeight - 8, event.clientY + 14) + 'px';
    });
  });
})();
